// The inside of coconet::Executable.
#pragma once

#include "jit/run/runner.h"

namespace coconet {

class Executable::State {
 public:
  /// Collective.
  State(World world, const jit::Platform& platform, Program scheduled, sched::Plan plan,
        std::map<std::string, std::int64_t> sizes, ir::Lists lists)
      : program(std::move(scheduled)),
        bound(std::move(world), platform, std::move(plan), std::move(sizes), std::move(lists)),
        runner(bound) {}

  Report report();

  Program program;  ///< after its schedule
  jit::Bound bound;
  jit::Runner runner;

 private:
  double copy_ms(std::uint64_t bytes);

  std::map<int, double> ms_per_byte_;  ///< of copies, by their size's binary logarithm
};

}  // namespace coconet
