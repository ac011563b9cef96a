// The tiles of overlapped steps: every one is made once, in the order in which the kernel after
// takes them.
#include <catch2/catch.hpp>

#include <set>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/bind/tile_counts.h"
#include "jit/codegen/codegen.h"
#include "jit/exchange/algorithm.h"
#include "jit/exchange/kernel_subjects.h"
#include "jit/platform/platform.h"
#include "sched/knobs.h"

using namespace coconet;

namespace {

/// A matmul whose product of [n, m] a kernel reduces, sliced along `dim`, while it is made.
sched::Plan overlapped(int ranks, int dim, const Knobs& knobs) {
  Program p("overlapped", Mesh({{"world", ranks}}));
  const Dim n = p.dim("n"), m = p.dim("m");
  const Value a = p.input("a", f32, {n, 4}, local);
  const Value product = matmul(a, p.input("b", f32, {4, m}, replicated)).named("product");
  p.output("y", reduce_scatter(product, sum, dim).named("part"));
  Schedule schedule;
  schedule.fuse("reduces", "reduce_scatter", {"part"}, knobs).overlap({"product", "reduces"});
  return sched::lower(*ir::graph_of(schedule.apply(p).back()));
}

jit::TileCounts counts_of(const sched::Plan& plan, const Sizes& sizes, int rank) {
  const jit::RankPlan of_rank(plan, sizes, {}, rank);
  jit::AllTileCounts all = jit::make_tile_counts(jit::host_platform(), of_rank);
  REQUIRE(all.size() == 1);
  return all.begin()->second;
}

}  // namespace

TEST_CASE("every tile is made once, for every algorithm, slicing and number of ranks") {
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    const Knobs knobs = test::knobs_of(algorithm.name, "");
    if (sched::uses_multicast(knobs)) continue;  // which overlaps nothing
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (const int dim : {0, 1}) {
        const sched::Plan plan = overlapped(ranks, dim, knobs);
        for (const Sizes& sizes : {Sizes{{"n", 1}, {"m", 1}}, Sizes{{"n", 1000}, {"m", 3}},
                                   Sizes{{"n", 67}, {"m", 131}}}) {
          INFO(algorithm.name << ", " << ranks << " ranks, dim " << dim << ", n " << sizes.at("n"));
          const jit::TileCounts counts = counts_of(plan, sizes, ranks - 1);
          const std::set<std::int64_t> tiles(counts.order().begin(), counts.order().end());
          CHECK(std::ssize(counts.order()) == counts.tiles());
          CHECK(std::ssize(tiles) == counts.tiles());
          CHECK(*tiles.rbegin() == counts.tiles() - 1);
          CHECK(counts.begin(counts.tiles()) == sizes.at("n") * sizes.at("m"));
        }
      }
    }
  }
}

TEST_CASE("tiles are made in the order in which a ring sends them on") {
  // 1024 rows in tiles of 128; each of 4 ranks owns two.
  const jit::TileCounts counts =
      counts_of(overlapped(4, 0, test::knobs_of("ring", "")), {{"n", 1024}, {"m", 2}}, 2);
  CHECK(counts.order() == std::vector<std::int64_t>{2, 0, 6, 4, 3, 1, 7, 5});
}

TEST_CASE("the library knows in which order the algorithms of kernels take slices") {
  for (const jit::Algorithm* algorithm : jit::algorithms()) {
    if (algorithm->topology.empty()) continue;  // which sends no slices
    for (const int ranks : {2, 3, 4, 5, 8, 13}) {
      jit::KernelText text;
      text.name = "owners";
      text.headers = {"exchange/protocols.h", "exchange/mailboxes.h",
                      std::string(algorithm->header)};
      const std::string r = std::to_string(ranks);
      text.source =
          "struct Args {\n  i64* out;\n};\n\nDEVICE void owners_block(const Args& a, const "
          "Block&) {\n  index_t at = 0;\n  for (int rank = 0; rank < " +
          r + "; ++rank)\n    for (int k = 0; k < " + r +
          " - 1; ++k)\n      for (int tree = 0; tree < " + std::to_string(algorithm->trees) +
          "; ++tree)\n        a.out[at++] = " + std::string(algorithm->topology) +
          "::up_owner(rank, k, " + r + ", tree);\n}\nKERNEL_ENTRY(owners)\n";
      const jit::CompileResult compiled =
          jit::host_platform().compiler().compile(jit::complete_source(text, "host"));
      INFO(compiled.log);
      REQUIRE(compiled.ok);
      std::vector<std::int64_t> in_kernels;
      std::vector<std::int64_t> in_library;
      for (int rank = 0; rank < ranks; ++rank) {
        for (int k = 0; k < ranks - 1; ++k) {
          for (int tree = 0; tree < algorithm->trees; ++tree)
            in_library.push_back(algorithm->up_owner(rank, k, ranks, tree));
        }
      }
      in_kernels.resize(in_library.size());
      const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(in_kernels.data())};
      jit::host_platform().make_queue()->launch(
          *jit::host_platform().load(compiled.binary, text.name), {}, words);
      INFO(algorithm->name << ", " << ranks << " ranks");
      CHECK(in_kernels == in_library);
    }
  }
}
