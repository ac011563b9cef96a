// split: an all_reduce becomes two collectives with a seam between them where computation can go.
#include "coconet/error.h"
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

constexpr std::string_view ways[] = {"reduce_scatter+all_gather", "reduce+broadcast"};

constexpr Parameter parameters[] = {
    {"op", Parameter::Kind::text, true, "", {}, "the all_reduce to split"},
    {"into", Parameter::Kind::text, false, ways[0], ways, "the two halves"},
    {"dim", Parameter::Kind::integer, false, "0", {}, "the dimension that reduce_scatter slices"},
};

ir::Graph apply(const ir::Graph& graph, const Step& step) {
  const ir::ValueId target = require_value(graph, step.text("op"));
  const ir::Node& all_reduce = graph.at(target);
  if (all_reduce.op != ir::Op::all_reduce) {
    throw ScheduleError(quoted(graph, target) +
                        " is no all_reduce; only an all_reduce can be split");
  }
  if (const ir::Fusion* fusion = graph.fusion_of(target)) {
    throw ScheduleError(quoted(graph, target) + " is in kernel '" + fusion->name +
                        "' already; split it before it is fused");
  }
  const bool scatter = step.text("into") == ways[0];
  const std::int64_t dim = step.integer("dim");
  const auto rank = static_cast<std::int64_t>(all_reduce.shape.size());
  if (scatter && (dim < 0 || dim >= rank)) {
    throw ScheduleError("'dim' is " + std::to_string(dim) + ", but " + describe(graph, target) +
                        " has " +
                        (rank == 0   ? "no dimension to slice; split it into reduce+broadcast"
                         : rank == 1 ? "dimension 0 only"
                                     : "dimensions 0 to " + std::to_string(rank - 1)));
  }
  if (!scatter && dim != 0)
    throw ScheduleError("'dim' is for reduce_scatter+all_gather only; drop it");
  Rewriter rewriter(graph);
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    if (id != target) {
      rewriter.copy(id);
      continue;
    }
    ir::Node first;
    first.op = scatter ? ir::Op::reduce_scatter : ir::Op::reduce;
    first.name = rewriter.fresh_name(all_reduce.name + (scatter ? ".reduce_scatter" : ".reduce"));
    first.operands = {rewriter.map(all_reduce.operands.front())};
    first.attributes = all_reduce.attributes;
    first.attributes.dim = static_cast<int>(dim);
    ir::Node second;
    second.op = scatter ? ir::Op::all_gather : ir::Op::broadcast;
    second.name = rewriter.fresh_name(all_reduce.name + (scatter ? ".all_gather" : ".broadcast"));
    second.attributes.axis = all_reduce.attributes.axis;
    first.user_named = second.user_named = all_reduce.user_named;
    second.operands = {rewriter.add(std::move(first))};
    rewriter.set(target, rewriter.add(std::move(second)));
  }
  return rewriter.finish();
}

std::vector<Step> candidates(const ir::Graph& graph) {
  std::vector<Step> steps;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    if (graph.at(id).op != ir::Op::all_reduce || graph.fusion_of(id) != nullptr) continue;
    for (const std::string_view way : ways) {
      Step step = complete({"split", {{"op", graph.at(id).name}, {"into", std::string(way)}}});
      if (legal(graph, step).empty()) steps.push_back(std::move(step));
    }
  }
  return steps;
}

}  // namespace

constinit const Transformation split_transformation{
    "split", "replaces an all_reduce by two collectives", parameters, apply, candidates};

}  // namespace coconet::sched
