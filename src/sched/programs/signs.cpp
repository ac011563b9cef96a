// The formulas of Rprop and Lion: what a step takes from gradients is their sign. Rprop's and its
// defaults are those of torch.optim (2.x), Lion's those of its paper.
#include <fmt/format.h>

#include "coconet/error.h"
#include "sched/programs/training.h"

namespace coconet::programs {

void add_formula(Training& training, const RpropOptions& options) {
  if (options.step_size_min > options.step_size_max) {
    throw ProgramError(
        fmt::format("rprop: step_size_min is {}; it must be at most step_size_max, {}",
                    options.step_size_min, options.step_size_max));
  }
  const State previous = training.moment("previous");
  const State step_size = training.moment("step_size");
  const Value t = training.step.t();
  const Value first = training.step.once([&] { return equal(t, 1); });
  const Value before = select(first, training.rate(training.lr), step_size);
  const Value agreement = training.gradient * previous;
  const Value agrees = agreement > 0;
  const Value turns = agreement < 0;
  const Value smaller = select(turns, options.eta_minus * before, before);
  const Value chosen = select(agrees, options.eta_plus * before, smaller);
  const Value at_least = maximum(chosen, options.step_size_min);
  const Value size = training.update(step_size, minimum(at_least, options.step_size_max));
  // Where the gradient has turned, the last step went too far: this one stays, and the next one
  // compares with 0.
  const Value used = training.update(previous, select(turns, 0, training.gradient));
  // A gradient that is not a number moves nothing, as its sign is 0 to PyTorch.
  const Value direction = select(isnan(used), 0, sign(used));
  training.finish(training.parameters - direction * size);
}

void add_formula(Training& training, const LionOptions& options) {
  const State m = training.moment("m");
  const Value decayed = training.decayed(options.weight_decay);
  const Value leaned = options.beta1 * m;
  const Value direction = sign(leaned + (1 - options.beta1) * training.gradient);
  const Value kept = options.beta2 * m;
  training.update(m, kept + (1 - options.beta2) * training.gradient);
  training.finish(decayed - training.rate(training.lr) * direction);
}

}  // namespace coconet::programs
