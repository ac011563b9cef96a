// What orders memory in the kernels that the library generates for GPUs, as litmus tests of the PTX
// memory model: no load can see anything stale, and that is so because of every fence, scope and
// barrier, each of which is taken away in turn.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "jit/platform/bare_nvrtc.h"
#include "ptx/job.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;
using namespace coconet::test::ptx;

namespace {

struct Exchange {
  Program program;
  Schedule schedule;
};

Exchange an_all_reduce(int ranks, const Knobs& knobs) {
  Program p("sums", Mesh({{"world", ranks}}));
  p.output("y", all_reduce(p.input("x", i32, {p.dim("n")}, local), sum).named("y"));
  return {p, Schedule("sums").fuse("sums", "all_reduce", {"y"}, knobs)};
}
/// Chunks go one way only, from the last rank: nothing else orders what they need.
Exchange a_broadcast(int ranks, const Knobs& knobs) {
  Program p("spreads", Mesh({{"world", ranks}}));
  p.output("y", broadcast(p.input("x", i32, {p.dim("n")}, local), ranks - 1).named("y"));
  return {p, Schedule("spreads").fuse("spreads", "broadcast", {"y"}, knobs)};
}
/// The other way.
Exchange a_reduce(int ranks, const Knobs& knobs) {
  Program p("adds", Mesh({{"world", ranks}}));
  p.output("y", reduce(p.input("x", i32, {p.dim("n")}, local), sum, ranks - 1).named("y"));
  return {p, Schedule("adds").fuse("adds", "reduce", {"y"}, knobs)};
}
/// Two reductions to one value, one after the other, inside the kernel.
Exchange reductions_inside(int ranks, const Knobs& knobs) {
  Program p("shifts", Mesh({{"world", ranks}}));
  const Value part = reduce_scatter(p.input("x", i32, {p.dim("n")}, local), sum).named("part");
  const Value most = max(part).named("most");
  const Value total = sum(part + most).named("total");
  p.output("y", all_gather((part + total).named("shifted")).named("y"));
  return {p, Schedule("shifts").fuse("shifts", "all_reduce",
                                     {"part", "most", "total", "shifted", "y"}, knobs)};
}
/// A kernel that takes the tiles of another one on its GPU.
Exchange kernels_with_tiles(int ranks, const Knobs& knobs) {
  Program p("chain", Mesh({{"world", ranks}}));
  const Dim n = p.dim("n");
  const Value x = p.input("x", i32, {n}, sliced(0));
  const Value whole = all_gather((x + 2).named("more")).named("whole");
  const Value own = p.input("own", i32, {n}, local);
  p.output("y", broadcast((whole + own).named("most"), ranks - 1).named("y"));
  return {p, Schedule("chain")
                 .fuse("gathers", "all_gather", {"more", "whole"}, knobs)
                 .fuse("spreads", "broadcast", {"most", "y"}, knobs)
                 .overlap({"gathers", "spreads"})};
}
/// A kernel that takes the tiles of a product.
Exchange a_product_with_tiles(int ranks, const Knobs& knobs) {
  Program p("product", Mesh({{"world", ranks}}));
  const Dim n = p.dim("n"), k = p.dim("k"), m = p.dim("m");
  const Value part =
      matmul(p.input("a", f32, {n, k}, sliced(0)), p.input("b", f32, {k, m}, replicated))
          .named("part");
  p.output("y", all_gather(part).named("y"));
  return {
      p,
      Schedule("product").fuse("gathers", "all_gather", {"y"}, knobs).overlap({"part", "gathers"})};
}

/// Mutations of a case that leave no load stale.
struct Needless {
  const char* mutation;
  std::size_t most;  ///< instructions of that kind
  const char* why;
};

struct Case {
  const char* name;
  Exchange exchange;
  JobShape shape;
  std::vector<Needless> needless;
};

const char* const at_ends = "the kernel begins or ends there, which orders as much";
const char* const a_reset = "a count is reset before a barrier, and counted on after it";
const char* const hints =
    "notices of ranks and the launch's fault end a wait early, and nothing is read because of them";
const char* const one_way =
    "a block that only sends has nothing to signal after the chunk, one that only takes has not "
    "waited for anything before it: cells and lines say themselves that they are there";

std::vector<Case> in_place_cases() {
  return {
      {"direct",
       an_all_reduce(3, {"direct", "simple"}),
       {.ranks = 3, .threads = 4, .elements = 12, .looked_at = {0, 1, 2, 3}},
       {{"bar.sync dropped", 1, at_ends}, {"bar.red.and.pred dropped", 1, at_ends}}},
      {"multimem",
       an_all_reduce(3, {"multimem", "simple"}),
       {.ranks = 3, .threads = 4, .elements = 12, .looked_at = {0, 1, 2, 3}},
       {{"bar.sync dropped", 1, at_ends}, {"bar.red.and.pred dropped", 1, at_ends}}},
      {"reductions inside",
       reductions_inside(2, {"direct", "simple"}),
       {.blocks = 2, .threads = 32, .elements = 4, .looked_at = {0, 1, 2, 3}},
       {{"bar.sync dropped", 5,
         "at the kernel's begin; before a total is left in shared memory, whose last use other "
         "barriers follow; and before signals of a leader who has left the totals itself"},
        {"bar.red.and.pred dropped", 1, at_ends},
        {"st.relaxed.sys.global.u64 at GPU scope", 2, a_reset},
        {"st.relaxed.sys.global.u64 at block scope", 2, a_reset},
        {"st.relaxed.sys.global.u64 weak", 2, a_reset},
        {"ld.relaxed.sys.global.u64 at GPU scope", 2, hints},
        {"ld.relaxed.sys.global.u64 at block scope", 2, hints},
        {"ld.relaxed.sys.global.u64 weak", 2, hints}}},
  };
}

std::vector<Case> mailbox_cases() {
  std::vector<Case> cases = {
      {"a ring with simple", a_broadcast(2, {"ring", "simple"}), {.chunk = 2}, {}},
      {"a ring with ll",
       a_broadcast(2, {"ring", "ll"}),
       {.chunk = 2},
       {{"bar.red.and.pred dropped", 2, one_way}}},
      // Two teams, of which the second has the last element of a chunk.
      {"a ring with ll128",
       a_broadcast(2, {"ring", "ll128"}),
       {.threads = 16, .elements = 183, .chunk = 61, .looked_at = {0, 7, 8, 15}},
       {{"bar.red.and.pred dropped", 2, one_way}}},
  };
  if (runs_all())
    cases.push_back(
        {"a ring with simple, the other way", a_reduce(2, {"ring", "simple"}), {.chunk = 2}, {}});
  return cases;
}

std::vector<Case> tile_cases() {
  const char* const one_gpu = "tiles are made and taken on one GPU";
  return {
      {"tiles of a kernel",
       kernels_with_tiles(1, {"ring", "simple"}),
       {.ranks = 1, .chunk = 2},
       {{"bar.red.and.pred dropped", 4,
         "a rank alone waits for no chunk, and the barrier after a wait for a tile is followed by "
         "the one before the chunk"},
        {"ld.acquire.sys.global.u64 at GPU scope", 2, one_gpu},
        {"red.release.sys.global.add.u64 at GPU scope", 1, one_gpu}}},
      {"tiles of a product",
       a_product_with_tiles(1, {"ring", "simple"}),
       {.ranks = 1, .chunk = 2},
       {{"bar.red.and.pred dropped", 3, "as in the case before, and the kernel ends"},
        {"ld.acquire.sys.global.u64 at GPU scope", 1, one_gpu},
        {"red.release.sys.global.add.u64 at GPU scope", 1, one_gpu}}},
  };
}

void require_nvrtc() {
  if (BareNvrtc().is_here()) return;
  std::cout << "skipped: NVRTC not available: " << jit::nvrtc::version() << std::endl;
  std::exit(77);  // what tests/CMakeLists.txt takes for "skipped"
}

/// One run for each rank that may go ahead.
std::vector<Run> runs_of(const Job& job, int ranks) {
  constexpr int launches = 2;
  std::vector<Run> runs;
  for (int first = 0; first < ranks; ++first)
    runs.push_back(job.describe(*job.run(launches, first).machine));
  return runs;
}

/// Those of the runs that leave no load stale in any of them, by what they are.
std::map<std::string, std::vector<std::string>> needless_in(const std::vector<Run>& runs) {
  std::map<std::string, std::vector<std::string>> needless;
  for (const Mutation& mutation : mutations_of(runs)) {
    const bool matters = std::ranges::any_of(
        runs, [&](const Run& run) { return !stale_loads(run, &mutation, 1).empty(); });
    if (!matters) needless[mutation.text()].push_back(mutation.where());
  }
  return needless;
}

std::size_t check_loads(const std::vector<Run>& runs) {
  std::size_t loads = 0;
  for (const Run& run : runs) {
    loads += checked_loads(run);
    for (const std::string& stale : stale_loads(run, nullptr, 3)) FAIL_CHECK(stale);
  }
  CHECK(loads > 0);
  return loads;
}

/// That the mutations that leave no load stale are those that the case knows.
void check_mutations(const Case& c, const std::vector<Run>& runs) {
  for (const auto& [mutation, where] : needless_in(runs)) {
    const auto is_known = [&, &text = mutation](const Needless& n) { return text == n.mutation; };
    const auto known = std::ranges::find_if(c.needless, is_known);
    INFO("no load is stale with: " << mutation);
    for (const std::string& place : where) UNSCOPED_INFO(place);
    CHECK(where.size() <= (known == c.needless.end() ? 0 : known->most));
  }
}

void check(const std::vector<Case>& cases) {
  require_nvrtc();
  for (const Case& c : cases) {
    INFO(c.name);
    const Job job(c.exchange.program, c.exchange.schedule, c.shape);
    const std::vector<Run> runs = runs_of(job, c.shape.ranks);
    const std::size_t loads = check_loads(runs);
    if (draw()) check_mutations(c, runs);
    std::cout << c.name << ": " << loads << " loads, " << mutations_of(runs).size() << " mutations"
              << std::endl;
  }
}

}  // namespace

TEST_CASE("no load of an exchange in place is stale, by each fence, scope and barrier") {
  check(in_place_cases());
}
TEST_CASE("no load through a mailbox is stale, by each fence, scope and barrier") {
  check(mailbox_cases());
}
TEST_CASE("no load of a tile is stale, by each scope and barrier") {
  check(tile_cases());
}

TEST_CASE("no load is stale with any algorithm and protocol, on three ranks") {
  require_nvrtc();
  for (const std::string algorithm : {"direct", "ring", "tree"}) {
    for (const std::string protocol : {"simple", "ll", "ll128"}) {
      if (!draw()) continue;
      INFO(algorithm << " with " << protocol);
      const Exchange exchange = an_all_reduce(3, {algorithm, protocol});
      JobShape shape{.ranks = 3, .threads = 3, .elements = 18, .chunk = 2, .looked_at = {0, 1, 2}};
      if (protocol == "ll128") shape.threads = 8;
      if (protocol == "ll128") shape.looked_at = {0, 1, 7};
      check_loads(runs_of(Job(exchange.program, exchange.schedule, shape), 3));
    }
  }
}

TEST_CASE("sums of all ranks are right with any algorithm and protocol") {
  require_nvrtc();
  constexpr int ranks = 2;
  for (const std::string algorithm : {"direct", "ring", "tree"}) {
    for (const std::string protocol : {"simple", "ll", "ll128"}) {
      if (!draw()) continue;
      INFO(algorithm << " with " << protocol);
      const Exchange exchange = an_all_reduce(ranks, {algorithm, protocol});
      JobShape shape{.ranks = ranks, .elements = 12, .chunk = 3, .looked_at = {0}};
      if (protocol == "ll128") {  // of which a slice is more than a line
        shape.threads = 8;
        shape.elements = 72;
        shape.chunk = 36;
      }
      std::vector<std::uint64_t> expected;
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::int64_t i = 0; i < shape.elements; ++i)
          expected.push_back(Job::operand(0, i) + Job::operand(1, i));
      }
      CHECK(Job(exchange.program, exchange.schedule, shape).run(1, 1).outputs == expected);
    }
  }
}

TEST_CASE("no load of a reduction inside a kernel is stale with mailboxes and with multicast") {
  require_nvrtc();
  for (const std::string algorithm : {"ring", "multimem"}) {
    if (!runs_all()) continue;
    INFO(algorithm);
    const Exchange exchange = reductions_inside(2, {algorithm, "simple"});
    const JobShape shape{.blocks = 2, .threads = 32, .chunk = 2, .looked_at = {0, 1, 2, 3}};
    check_loads(runs_of(Job(exchange.program, exchange.schedule, shape), 2));
  }
}
