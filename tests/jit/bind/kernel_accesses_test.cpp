// Whether kernels access tensors in vectors, and past the caches.
#include "jit/bind/kernel_accesses.h"

#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "ir/access.h"

using namespace coconet;

namespace {

/// How `program`'s first kernel accesses tensors of [b, c], of which x begins at element `shift` of
/// aligned memory.
std::uint64_t mode_of(const Program& program, std::int64_t b, std::int64_t c, std::size_t shift) {
  const jit::RankPlan plan(sched::lower(*ir::graph_of(program)), {{"b", b}, {"c", c}}, {}, 0);
  const auto& step = std::get<sched::KernelStep>(plan.plan().steps.front());
  const std::shared_ptr<jit::Comm> comm = jit::make_self_comm();
  jit::Tensors tensors(*comm, jit::host_platform(), plan);
  const auto count = static_cast<std::size_t>(b * c);
  const std::shared_ptr<jit::Memory> memory = jit::host_platform().allocate(4 * (count + shift));
  const Executable::Piece x{memory->data() + 4 * shift, count};
  tensors.bind("x", f32, std::span(&x, 1));
  return jit::KernelAccesses(plan, step, jit::generate(plan.plan(), step), {}).mode(tensors);
}

/// Whether summing the rows of a tensor [b, c], or adding a row [c] to each, accesses vectors.
bool accesses_rows(bool reduces, std::int64_t b, std::int64_t c, std::size_t shift) {
  Program p("rows", Mesh({{"world", 1}}));
  const Dim columns = p.dim("c");
  const Value x = p.input("x", f32, {p.dim("b"), columns}, replicated);
  const Value y = reduces ? sum(x, {1}) : x + p.input("bias", f32, {columns}, replicated);
  p.output("y", y.named("y"));
  return (mode_of(p, b, c, shift) & jit::abi::VECTORIZE) != 0;
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
  return (mode_of(fused, b, c, 0) & jit::abi::STREAMING) != 0;
}

}  // namespace

TEST_CASE("large rows are stored past the caches where every one begins at a whole vector") {
  CHECK(streams_rows(1000, 1024));
  CHECK(streams_rows(1000, 1040));
  CHECK(streams_rows(1, 1 << 19 | 1));
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
