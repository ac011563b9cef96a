// The inside of coconet::Executable.
#pragma once

#include "jit/run/roofline.h"
#include "jit/run/runner.h"

namespace coconet {

class Executable::State {
 public:
  /// Collective.
  State(World world, const jit::Platform& platform, std::shared_ptr<const Config> config,
        Program scheduled, jit::ChosenPlan plan, std::map<std::string, std::int64_t> sizes,
        ir::Lists lists)
      : program(std::move(scheduled)),
        bound(std::move(world), platform, std::move(config), std::move(plan), std::move(sizes),
              std::move(lists)),
        runner(bound),
        roofline(bound.comm(), platform) {}

  Report report();

  Program program;  ///< after its schedule
  jit::Bound bound;
  jit::Runner runner;
  jit::Roofline roofline;
};

}  // namespace coconet
