// Optimizers of 16-bit floats compute in f32 from what they read to what they store: by the
// reference interpreter, which rounds every value where the program says.
#include "narrow_steps.h"

#include "sched/subjects.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE(
    "a step of any optimizer in 16 bits stores what f64 gives, to 2 units in the last place") {
  for (const NarrowStep& step : narrow_steps()) {
    for (const Gradients gradients : all_gradients) {
      const NarrowStep::Tensors before = step.before(gradients);
      step.check(before, NarrowStep::after(step.program(), before));
    }
  }
}

TEST_CASE("numbers of a whole tensor reach 16-bit parameters in f32") {
  const auto step = [](const Program& program, double w, double g, std::size_t n, double lr) {
    ir::Reference reference(*ir::graph_of(program), {{"n", static_cast<std::int64_t>(n)}});
    reference.set("w", ir::RankData(1, ir::Data(n, w)));
    reference.set("g", ir::RankData(1, ir::Data(n, g)));
    reference.run({{"lr", lr}, {"t", 1}});
    return reference.get("w")[0].front();
  };
  const Mesh alone({{"world", 1}});
  // The factor of clipping is 1.7e-8, and 0 in f16.
  CHECK(step(programs::sgd(alone, f16, {.max_norm = 1}), 0, 60000, 1'000'000, 1) ==
        round_to(f16, -0.001));
  // The inverse of the scale is 2^-30, and 0 in f16.
  const programs::LossScale large = {.init_scale = 0x1p30};
  CHECK(step(programs::sgd(alone, f16, {.loss_scaling = true, .loss_scale = large}), 0, 4096, 1,
             1024) == -0x1p-8);
  // The ratio of norms is more than a million, and infinite in f16.
  const programs::LambOptions lamb = {.weight_decay = 0, .loss_scaling = true};
  CHECK(step(programs::lamb(alone, f16, lamb), 1, 0x1p-24, 1, 0.125) == 0.875);
  const programs::LarsOptions lars = {.weight_decay = 0, .trust_coefficient = 1};
  CHECK(step(programs::lars(alone, f16, lars), 1, 0x1p-20, 1, 0.125) == 0.875);
}

TEST_CASE("optimizers of 16-bit states have no value of 16 bits but what they read and store") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with == nullptr) continue;
    for (const Asked& asked : asked_of_narrow) {
      for (const auto& precision : {programs::Precision(f16), programs::mixed(f16)}) {
        const Program program =
            shipped.with(two_ranks(), precision, asked.options, programs::Storage::whole, {});
        INFO(program.str());
        for (const ir::Node& node : ir::graph_of(program)->nodes()) {
          if (node.weak || !is_16_bit(node.dtype)) continue;
          const bool moves = node.op == ir::Op::input || node.op == ir::Op::state ||
                             node.op == ir::Op::all_reduce || node.op == ir::Op::cast ||
                             node.op == ir::Op::update;
          CHECK(moves);
        }
      }
    }
  }
}
