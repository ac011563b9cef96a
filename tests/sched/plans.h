// Plans as the tests of lowering look at them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "coconet/program.h"
#include "ir/access.h"
#include "sched/plan.h"

namespace coconet {

/// The plan of `program` as text.
inline std::string plan_of(const Program& program) {
  return sched::print(sched::lower(*ir::graph_of(program)));
}

/// The part of the plan behind "steps".
inline std::string steps_of(const Program& program) {
  const std::string text = plan_of(program);
  return text.substr(text.find("steps\n") + 6);
}

inline std::vector<std::string> kernel_names(const Program& program) {
  std::vector<std::string> names;
  for (const sched::PlanStep& step : sched::lower(*ir::graph_of(program)).steps) {
    if (const auto* kernel = std::get_if<sched::KernelStep>(&step)) names.push_back(kernel->name);
  }
  return names;
}

}  // namespace coconet
