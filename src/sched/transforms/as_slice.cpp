// as_slice: keeps a replicated state sliced, so that every rank holds, reads and writes 1/n of it.
#include <fmt/format.h>

#include <map>

#include "coconet/error.h"
#include "sched/refusal.h"
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

constexpr Parameter as_slice_parameters[] = {
    {.name = "state",
     .summary = "the replicated state to keep sliced",
     .takes_patterns = true,
     .pattern_of = ir::Op::state},
};

/// Reorders of `id` before each all_gather that it depends on, of which an all_reduce that is not
/// split yet makes one: alone, and with all updates behind the gather.
std::vector<Remedy> reorders_of(const ir::Graph& graph, ir::ValueId id) {
  std::vector<Remedy> remedies;
  for (const ir::ValueId one : ancestors(graph, {id})) {
    const std::string& name = graph.at(one).name;
    std::vector<Step> first;
    if (graph.at(one).op == ir::Op::all_reduce)
      first.push_back(complete({"split", {{"op", name}}}));
    if (graph.at(one).op != ir::Op::all_gather && first.empty()) continue;
    std::vector<std::string> updates;
    for (const ir::ValueId behind : descendants(graph, {one})) {
      if (behind == id || graph.at(behind).op == ir::Op::update)
        updates.push_back(graph.at(behind).name);
    }
    for (const auto& before : {std::vector<std::string>{graph.at(id).name}, updates}) {
      remedies.push_back({.first = first});
      remedies.back().first.push_back(complete(
          {"reorder",
           {{"all_gather", first.empty() ? name : name + ".all_gather"}, {"before", before}}}));
    }
  }
  return remedies;
}

/// Whether `id` is a slice of what has become one.
bool is_sliced_already(const ir::Graph& graph, ir::ValueId id, const Rewriter& rewriter) {
  const ir::Node& node = graph.at(id);
  if (node.op != ir::Op::slice) return false;
  const ir::ValueId from = rewriter.map(node.operands.front());
  return rewriter.graph().at(from).layout == node.layout;
}

/// Copies a value that may now be computed from slices. What needs the whole state refuses.
void copy_reader(const ir::Graph& graph, ir::ValueId state, ir::ValueId id, Rewriter& rewriter) {
  if (is_sliced_already(graph, id, rewriter)) {
    rewriter.set(id, rewriter.map(graph.at(id).operands.front()));
    return;
  }
  const auto refuse = [&](const std::string& why) {
    throw Refusal(quoted(graph, state) + " is read whole by " + quoted(graph, id) + why,
                  reorders_of(graph, id), "leave the state replicated");
  };
  try {
    rewriter.copy(id);
  } catch (const ProgramError& error) {
    refuse(fmt::format(": {}", error.what()));
  }
  if (rewriter.graph().at(rewriter.map(id)).layout == graph.at(id).layout) return;
  for (const ir::Output& output : graph.outputs()) {
    if (output.value == id) refuse(", the output '" + output.name + "'");
  }
}

/// Axes divide a dimension in their order: a slice over an earlier axis as well is cut before the
/// one that a rank holds now, and is no part of it.
void require_part(const ir::Graph& graph, ir::ValueId state, int axis, Placement slice) {
  const ir::Placements& layout = graph.at(state).layout;
  const auto& axes = graph.mesh.axes();
  for (std::size_t later = axis + 1; later < layout.size(); ++later) {
    if (layout[later] != slice) continue;
    throw ScheduleError(fmt::format(
        "{} is sliced({}) over '{}' already, and slices over '{}' as well, which comes first in "
        "the mesh, are no parts of those; leave it so, or declare it replicated over '{}'",
        quoted(graph, state), slice.dim, axes[later].name, axes[axis].name, axes[later].name));
  }
}

/// A state that is to be kept sliced along `axis`.
struct Kept {
  ir::ValueId state, update;
  ir::ValueId slice;  ///< what the update shall write
  int axis;
};

Kept kept_of(const ir::Graph& graph, const Step& step) {
  const ir::ValueId state = require_value(graph, step.text("state"));
  if (graph.at(state).op != ir::Op::state) {
    throw ScheduleError(quoted(graph, state) + " is no state; only states can be kept sliced");
  }
  const ir::ValueId update = graph.update_of(state);
  if (update < 0) {
    throw ScheduleError(quoted(graph, state) +
                        " is never updated, so every rank reads the whole of it; " +
                        "declare it sliced instead");
  }
  const ir::ValueId value = graph.at(update).operands[1];
  if (graph.at(value).op != ir::Op::all_gather) {
    throw Refusal("the update of " + quoted(graph, state) + " writes " + quoted(graph, value) +
                      ", which is computed whole",
                  reorders_of(graph, update), "leave the state replicated");
  }
  for (const ir::ValueId id : {update, value})
    refuse_fused(graph, id, "keep the state sliced before fusing");
  if (graph.at(value).shape != graph.at(state).shape) {
    throw ScheduleError(quoted(graph, update) +
                        " broadcasts its value over the state; a slice of the value is no " +
                        "slice of the state");
  }
  const ir::ValueId slice = graph.at(value).operands.front();
  const int axis = graph.at(value).attributes.axis;
  const Placement now = graph.at(state).layout[axis];
  if (now != replicated && now != graph.at(slice).layout[axis]) {
    throw ScheduleError(
        quoted(graph, state) + " is " + ir::to_string(graph.at(state).layout, graph.mesh) +
        ", and its update gathers what is " + ir::to_string(graph.at(slice).layout, graph.mesh) +
        "; only a replicated state can be kept sliced");
  }
  if (now == replicated) require_part(graph, state, axis, graph.at(slice).layout[axis]);
  return {state, update, slice, axis};
}

ir::Graph apply_as_slices(const ir::Graph& graph, std::span<const Step> steps) {
  std::map<ir::ValueId, Kept> by_state, by_update;
  for (const Step& step : steps) {
    const Kept kept = kept_of(graph, step);
    by_state.emplace(kept.state, kept);
    by_update.emplace(kept.update, kept);
  }
  Rewriter rewriter(graph);
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    const auto state = by_state.find(id), update = by_update.find(id);
    if (state != by_state.end()) {
      const int axis = state->second.axis;
      ir::Node node = graph.at(id);
      node.layout[axis] = graph.at(state->second.slice).layout[axis];
      node.attributes.scattered = false;  // a slice is one buffer of its own
      rewriter.set(id, rewriter.add(std::move(node)));
    } else if (update != by_update.end()) {
      ir::Node node = graph.at(id);
      node.operands = {rewriter.map(update->second.state), rewriter.map(update->second.slice)};
      rewriter.set(id, rewriter.add(std::move(node)));
    } else {
      copy_reader(graph, by_state.begin()->first, id, rewriter);
    }
  }
  return rewriter.finish();
}

ir::Graph apply_as_slice(const ir::Graph& graph, const Step& step) {
  return apply_as_slices(graph, {&step, 1});
}

std::vector<Step> as_slice_candidates(const ir::Graph& graph) {
  std::vector<Step> steps;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::state) continue;
    Step step = complete({"as_slice", {{"state", node.name}}});
    if (is_legal(graph, step)) steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

constinit const Transformation as_slice_transformation{
    "as_slice",          "keeps a replicated state sliced: each rank holds 1/n of it",
    as_slice_parameters, apply_as_slice,
    as_slice_candidates, apply_as_slices};

}  // namespace coconet::sched
