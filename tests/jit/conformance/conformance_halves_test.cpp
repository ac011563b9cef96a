// Halves of an f32 and stochastic rounding equal the reference bit for bit: in every layout, beside
// wider and narrower types, for every kind of number, and the same under every schedule.
#include <bit>
#include <cmath>

#include "coconet/coconet.h"
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> sizes_of_halves = {{{"n", 1}}, {{"n", 5}}, {{"n", 67}}, {{"n", 1000}}};

/// An f32 that is kept as its halves, and one as a bf16 alone; `beside` widens the lanes.
Program kept(int ranks, Placement placement, DType beside) {
  Program program("kept", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n");
  const Value t = program.scalar("t");
  const Value x = program.input("x", f32, {n}, placement);
  const Value upper = program.state("upper", bf16, {n}, placement);
  const Value lower = program.state("lower", i16, {n}, placement);
  const Value alone = program.state("alone", bf16, {n}, placement);
  const Value other = program.input("other", beside, {n}, placement);
  const Value joined = (join_halves(upper, lower) * 0.75 + x).named("joined");
  update(upper, upper_half(joined)).named("upper.new");
  update(lower, lower_half(joined)).named("lower.new");
  update(alone, stochastic_cast(cast(alone, f32) + x, bf16, 5, t)).named("alone.new");
  program.output("chosen", select(joined > 0, other + other, other).named("chosen"));
  return program;
}

}  // namespace

TEST_CASE("halves and stochastic rounding equal the reference in every layout and lane") {
  for (const int ranks : {1, 2, 3}) {
    for (const Placement placement : {replicated, local, sliced(0)}) {
      for (const DType beside : all_dtypes) {
        if (beside == boolean) continue;
        require_conforms(kept(ranks, placement, beside),
                         one_kernel("kept", {"upper.new", "lower.new", "alone.new", "chosen"}),
                         ranks, sizes_of_halves, 3);
      }
    }
  }
}

TEST_CASE("kernels take apart and join every kind of f32 as the reference does") {
  // All upper halves, with lower ones around a tie.
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0xffffU})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  }
  Program program("bits", Mesh({{"world", 1}}));
  const Dim n = program.dim("n", static_cast<std::int64_t>(values.size()));
  const Value x = program.input("x", f32, {n}, replicated);
  const Value upper = program.state("upper", bf16, {n}, replicated);
  const Value lower = program.state("lower", i16, {n}, replicated);
  const Value u = update(upper, upper_half(x)).named("u");
  const Value l = update(lower, lower_half(x)).named("l");
  program.output("joined", join_halves(u, l).named("joined"));
  const World world = World::self();
  for (const bool fused : {false, true}) {
    const Schedule schedule = fused ? one_kernel("bits", {"u", "l", "joined"}) : Schedule("none");
    Executable step = compile(program, schedule, world);
    step.write("x", values);
    step.run();
    const std::span<const float> joined = step.data<float>("joined");
    const std::span<const BFloat16> halves = step.data<BFloat16>("upper");
    int different = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        different += !std::isnan(joined[i]) || !std::isnan(static_cast<float>(halves[i]));
        continue;
      }
      different +=
          std::bit_cast<std::uint32_t>(joined[i]) != std::bit_cast<std::uint32_t>(values[i]);
    }
    INFO((fused ? "one kernel" : "unfused"));
    CHECK(different == 0);
  }
}
