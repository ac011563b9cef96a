// dead: drops the values that no update and no output needs.
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

ir::Graph apply_dead(const ir::Graph& graph, const Step&) {
  return drop_dead(graph);
}

std::vector<Step> dead_candidates(const ir::Graph& graph) {
  if (static_cast<int>(live_values(graph).size()) == graph.size()) return {};
  Step step = complete({"dead", {}});
  if (!is_legal(graph, step)) return {};  // a kernel would lose what connects it
  return {std::move(step)};
}

}  // namespace

constinit const Transformation dead_transformation{
    "dead",
    "drops every value that no update and no output needs",
    {},
    apply_dead,
    dead_candidates};

}  // namespace coconet::sched
