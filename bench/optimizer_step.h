// A step of a shipped optimizer under one of its schedules, to be timed beside what does the same
// without the library, or beside another schedule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "schedule_of.h"
#include "verify.h"

namespace bench {

/// What there is to know of an optimizer for running it.
struct Optimizer {
  std::string program;              ///< its name, and its schedules'
  std::vector<std::string> states;  ///< beside `w`
  bool takes_t = true;              ///< whether it has a scalar `t`
};

/// Gradient and weights are of Model, all other states of f32.
template <class Model>
class OptimizerStep {
 public:
  /// `program` is `optimizer`, with options or without, over buffers of `lengths`, or a tensor of
  /// one length; `schedule` one of those that ship with it, such as "fused", or "automatic".
  OptimizerStep(const coconet::World& world, const Optimizer& optimizer,
                const coconet::Program& program, const std::string& schedule,
                const std::vector<std::int64_t>& lengths, double lr)
      : world_(world),
        optimizer_(optimizer),
        step_(coconet::compile(
            program, schedule_of(optimizer.program, schedule), world,
            {{"n", std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})}},
            lengths.size() == 1 ? coconet::ParameterLists{}
                                : coconet::ParameterLists{{"n", lengths}})),
        lr_(lr) {}

  void begin(std::span<const Model> g, std::span<const Model> w) {
    step_.write("g", g);
    step_.write("w", w);
    for (const std::string& name : optimizer_.states) {
      std::ranges::fill(step_.data<float>(name), name == "master" ? first_weight : 0.0f);
    }
    world_.barrier();
  }
  void step(int t) {
    if (optimizer_.takes_t) {
      step_.run({{"lr", lr_}, {"t", t}});
    } else {
      step_.run({{"lr", lr_}});
    }
  }

  [[nodiscard]] coconet::Executable& executable() { return step_; }
  /// Where they are not scattered.
  [[nodiscard]] std::span<const Model> weights() { return step_.template data<Model>("w"); }
  /// Collective: what this rank reads and writes in a step, as the cost model counts it.
  [[nodiscard]] std::uint64_t bytes() { return step_.report().bytes; }

 private:
  const coconet::World& world_;
  Optimizer optimizer_;
  coconet::Executable step_;
  double lr_;
};

}  // namespace bench
