// Whether kernels access tensors in vectors, and past the caches.
#include "jit/bind/kernel_accesses.h"

#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "ir/access.h"

using namespace coconet;

namespace {

/// Whether `program`'s first kernel, whose tensor x of `count` elements begins at element `shift`
/// of aligned memory, accesses vectors.
bool accesses_vectors(const Program& program, const Sizes& sizes, std::size_t count,
                      std::size_t shift) {
  const jit::RankPlan plan(sched::lower(*ir::graph_of(program)), sizes, {}, 0);
  const auto& step = std::get<sched::KernelStep>(plan.plan().steps.front());
  const std::shared_ptr<jit::Comm> comm = jit::make_self_comm();
  jit::Tensors tensors(*comm, jit::host_platform(), plan);
  const std::shared_ptr<jit::Memory> memory = jit::host_platform().allocate(4 * (count + shift));
  const Executable::Piece x{memory->data() + 4 * shift, count};
  tensors.bind("x", f32, std::span(&x, 1));
  const jit::KernelAccesses accesses(plan, step, jit::generate(plan.plan(), step), {});
  return (accesses.mode(tensors) & jit::abi::VECTORIZE) != 0;
}

/// Whether summing the rows of a tensor [b, c], or adding a row [c] to each, accesses vectors.
bool accesses_rows(bool reduces, std::int64_t b, std::int64_t c, std::size_t shift) {
  Program p("rows", Mesh({{"world", 1}}));
  const Dim columns = p.dim("c");
  const Value x = p.input("x", f32, {p.dim("b"), columns}, replicated);
  const Value y = reduces ? sum(x, {1}) : x + p.input("bias", f32, {columns}, replicated);
  p.output("y", y.named("y"));
  return accesses_vectors(p, {{"b", b}, {"c", c}}, static_cast<std::size_t>(b * c), shift);
}

/// Whether a kernel that sums up tensors of [b, c] of all ranks and adds a row of [c] may store
/// past the caches.
bool streams_rows(std::int64_t b, std::int64_t c, const Knobs& knobs = {}) {
  Program p("rows", Mesh({{"world", 1}}));
  const Dim columns = p.dim("c");
  const Value x = p.input("x", f32, {p.dim("b"), columns}, local);
  const Value total = all_reduce(x, sum).named("total");
  p.output("y", (total + p.input("bias", f32, {columns}, replicated)).named("y"));
  const Program fused =
      Schedule()
          .split("total")
          .reorder("total.all_gather", {"y"})
          .fuse("k", "all_reduce", {"total.reduce_scatter", "y.slice", "y.all_gather"}, knobs)
          .apply(p)
          .back();
  const jit::RankPlan plan(sched::lower(*ir::graph_of(fused)), {{"b", b}, {"c", c}}, {}, 0);
  const auto& step = std::get<sched::KernelStep>(plan.plan().steps.front());
  const std::shared_ptr<jit::Comm> comm = jit::make_self_comm();
  const jit::Tensors tensors(*comm, jit::host_platform(), plan);
  const jit::KernelAccesses accesses(plan, step, jit::generate(plan.plan(), step), {});
  return (accesses.mode(tensors) & jit::abi::STREAMING) != 0;
}

}  // namespace

TEST_CASE("large rows are stored past the caches where every one begins at a whole vector") {
  CHECK(streams_rows(1000, 1024));
  CHECK(streams_rows(1000, 1040));
  CHECK(streams_rows(1, 1 << 18 | 1));
  CHECK_FALSE(streams_rows(1000, 1025));
  CHECK_FALSE(streams_rows(1000, 1032));
  CHECK_FALSE(streams_rows(10, 1024));
}

TEST_CASE("kernels decide by their chunks what goes into mailboxes past the caches") {
  Knobs knobs;
  knobs.algorithm = "ring";
  CHECK(streams_rows(1000, 1025, knobs));
  CHECK(streams_rows(1, 1, knobs));
}

TEST_CASE("a kernel over rows accesses vectors where every row and the tensor itself are aligned") {
  for (const bool reduces : {true, false}) {
    INFO((reduces ? "a reduction" : "a sum"));
    CHECK(accesses_rows(reduces, 1, 101, 0));
    CHECK(accesses_rows(reduces, 3, 100, 0));
    CHECK(accesses_rows(reduces, 3, 100, 4));
    CHECK_FALSE(accesses_rows(reduces, 3, 101, 0));
    CHECK_FALSE(accesses_rows(reduces, 3, 102, 0));
    CHECK_FALSE(accesses_rows(reduces, 3, 100, 1));
    CHECK_FALSE(accesses_rows(reduces, 1, 101, 2));
  }
}
