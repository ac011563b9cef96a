// Whether kernels access tensors in vectors.
#include "jit/bind/kernel_accesses.h"

#include <catch2/catch.hpp>

#include "coconet/coconet.h"

using namespace coconet;

namespace {

/// Whether the sums of the rows of a tensor of [b, c], from element `shift` of aligned memory on,
/// are loaded in vectors.
bool sums_vectors(std::int64_t b, std::int64_t c, std::size_t shift) {
  Program p("sums", Mesh({{"world", 1}}));
  const Value x = p.input("x", f32, {p.dim("b"), p.dim("c")}, replicated);
  p.output("y", sum(x, {1}).named("y"));
  const jit::RankPlan plan(sched::lower(*p.graph()), {{"b", b}, {"c", c}}, {}, 0);
  const auto& step = std::get<sched::KernelStep>(plan.plan().steps.front());
  const std::shared_ptr<jit::Comm> comm = jit::make_self_comm();
  jit::Tensors tensors(*comm, jit::host_platform(), plan);
  const auto count = static_cast<std::size_t>(b * c);
  const std::shared_ptr<jit::Memory> memory = jit::host_platform().allocate(4 * (count + shift));
  tensors.bind("x", f32, memory->data() + 4 * shift, count);
  const jit::KernelAccesses accesses(plan, step, jit::generate(plan.plan(), step), {});
  return (accesses.mode(tensors) & jit::abi::VECTORIZE) != 0;
}

}  // namespace

TEST_CASE("a reduction loads vectors where every row and the tensor itself are aligned") {
  CHECK(sums_vectors(1, 101, 0));
  CHECK(sums_vectors(3, 100, 0));
  CHECK(sums_vectors(3, 100, 4));
  CHECK_FALSE(sums_vectors(3, 101, 0));
  CHECK_FALSE(sums_vectors(3, 102, 0));
  CHECK_FALSE(sums_vectors(3, 100, 1));
  CHECK_FALSE(sums_vectors(1, 101, 2));
}
