// Steps that are taken together wherever schedules are tried.
#include "sched/tune/scheduled.h"

namespace coconet::sched {

Scheduled after(const Scheduled& from, const Step& step) {
  Scheduled to = {from.steps, transform(from.graph, step)};
  to.steps.push_back(step);
  for (const Step& dead : dead_transformation.candidates(to.graph)) {
    to.graph = transform(to.graph, dead);
    to.steps.push_back(dead);
  }
  return to;
}

std::vector<Step> slicing_steps(const ir::Graph& graph) {
  std::vector<Step> steps = as_slice_transformation.candidates(graph);
  std::erase_if(steps, [&](const Step& step) {
    return !graph.at(graph.find(step.text("state"))).attributes.may_slice;
  });
  return steps;
}

Scheduled all_sliced(Scheduled from) {
  for (const Step& step : slicing_steps(from.graph)) {
    if (is_legal(from.graph, step)) from = after(from, step);
  }
  return from;
}

}  // namespace coconet::sched
