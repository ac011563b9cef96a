// reorder: moves computation from behind an all_gather to in front of it, where it runs on slices.
//
//   y = f(all_gather(s), w)   becomes   y_s = f(s, w); y = all_gather(y_s)
//
// Replicated operands such as w stay whole and are read at the slice's global index. A state update
// behind the gather still writes the whole state, from its own all_gather; as_slice then removes
// that. A collective along another axis treats every element alike, or slices and gathers another
// dimension, so it works on slices too:
//
//   y = send(f(all_gather(s, tp)), pp)   becomes   y_s = send(f(s), pp); y = all_gather(y_s, tp)
//
// What another operand has sliced already is the same value in front of the gather, and no gather
// follows it.
//
// A reduction over the gathered dimension comes out replicated from slices too, combined across
// ranks, so what reads it goes on whole. Reductions of replicated tensors that do not depend on the
// gather, such as the norm of the parameters beside that of their update, move when they, or what
// is computed from them, are named: r = sum(w) becomes r = sum(slice(w)), of which each rank does
// its share.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/factors.h"
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

constexpr Parameter reorder_parameters[] = {
    {.name = "all_gather",
     .summary = "the all_gather to move computation across",
     .takes_patterns = true,
     .pattern_of = ir::Op::all_gather},
    {.name = "before",
     .kind = Parameter::Kind::list,
     .summary = "the last values of the computation that moves; what lies between moves with them",
     .takes_patterns = true},
};

/// What a step moves.
struct Region {
  std::set<ValueId> behind;  ///< the values between the gather and what is named
  std::set<ValueId>
      reductions;  ///< reductions of replicated tensors, which do not depend on the gather
};

/// The dimension that `gather` makes whole.
int gathered_dim(const Graph& graph, ValueId gather) {
  const Node& node = graph.at(gather);
  return graph.at(node.operands.front()).layout[node.attributes.axis].dim;
}

/// The reductions that `id` is computed from.
std::set<ValueId> reductions_of(const Graph& graph, ValueId id) {
  std::set<ValueId> found;
  for (const ValueId ancestor : ancestors(graph, {id})) {
    if (graph.at(ancestor).op == ir::Op::reduction) found.insert(ancestor);
  }
  return found;
}

constexpr std::string_view reorder_before_fusing = "reorder before fusing";

/// Throws when `id`, which lies between `gather` and the named values, cannot run on slices for
/// what it is.
void require_movable(const Graph& graph, ValueId gather, ValueId id) {
  const Node& node = graph.at(id);
  const int axis = graph.at(gather).attributes.axis;
  if (ir::is_collective(node.op) && node.attributes.axis == axis) {
    throw ScheduleError(quoted(graph, id) + " works along axis '" + graph.mesh.axes()[axis].name +
                        "', which " + quoted(graph, gather) +
                        " gathers; only collectives along other axes move across it");
  }
  if (!ir::is_elementwise(node.op) && node.op != ir::Op::update && node.op != ir::Op::reduction &&
      !ir::is_collective(node.op)) {
    throw ScheduleError(quoted(graph, id) + " lies between " + quoted(graph, gather) +
                        " and the named values and needs whole operands; only pointwise ops, " +
                        "reductions, updates and collectives along other axes move across an " +
                        "all_gather");
  }
  refuse_fused(graph, id, reorder_before_fusing);
}

/// Throws unless reduction `id`, which does not depend on the gather, gives the same from slices of
/// its operand.
void check_reduction(const Graph& graph, ValueId gather, ValueId id) {
  const ValueId operand = graph.at(id).operands.front();
  const int axis = graph.at(gather).attributes.axis;
  const int dim = gathered_dim(graph, gather);
  if (graph.at(operand).layout[axis] != replicated || !ir::reduces(graph.at(id), dim)) {
    throw ScheduleError(
        fmt::format("{} reduces {}; beside computation behind {}, reductions over dimension {} of "
                    "replicated tensors move",
                    quoted(graph, id), describe(graph, operand), quoted(graph, gather), dim));
  }
  refuse_fused(graph, id, reorder_before_fusing);
}

/// What the step moves, all of which can run on slices.
Region find_region(const Graph& graph, ValueId gather, const std::vector<std::string>& before) {
  const ValueSet behind = descendants(graph, {gather});
  Region region;
  std::set<ValueId> targets;
  for (const std::string& name : before) {
    const ValueId id = require_value(graph, name);
    const bool moves = id != gather && behind.contains(id);
    const std::set<ValueId> reductions = moves ? std::set<ValueId>() : reductions_of(graph, id);
    if (!moves && (id == gather || reductions.empty())) {
      throw ScheduleError(quoted(graph, id) + " does not depend on " + quoted(graph, gather) +
                          ", so there is nothing to move; name values computed from it");
    }
    if (moves) targets.insert(id);
    region.reductions.insert(reductions.begin(), reductions.end());
  }
  if (before.empty()) throw ScheduleError("'before' is empty; name the values that move");
  for (const ValueId id : region.reductions) check_reduction(graph, gather, id);
  for (const ValueId id : ancestors(graph, targets)) {
    if (!behind.contains(id) || id == gather) continue;
    require_movable(graph, gather, id);
    region.behind.insert(id);
  }
  return region;
}

/// Rewrites one graph; slice_ maps region values to their sliced counterparts in the new graph.
class Reorder {
 public:
  Reorder(const Graph& graph, ValueId gather, Region region)
      : graph_(graph),
        gather_(gather),
        axis_(graph.at(gather).attributes.axis),
        region_(std::move(region.behind)),
        reductions_(std::move(region.reductions)),
        users_(graph.users()),
        rewriter_(graph),
        slice_(graph.nodes().size(), -1) {}

  Graph run() {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (id == gather_) {
        slice_[id] = rewriter_.map(graph_.at(id).operands.front());
        if (needed_whole(id)) rewriter_.copy(id);
      } else if (reductions_.contains(id)) {
        slice_operand(id);
      } else if (!region_.contains(id) || !reads_slice(id)) {
        rewriter_.copy(id);
      } else if (graph_.at(id).op == ir::Op::update) {
        move_update(id);
      } else {
        move_computation(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  [[nodiscard]] bool needed_whole(ValueId id) const {
    return graph_.is_output(id) ||
           std::ranges::any_of(users_[id], [&](ValueId user) { return !region_.contains(user); });
  }

  /// Whether region value `id` reads a slice; what reads results of reductions only is whole.
  [[nodiscard]] bool reads_slice(ValueId id) const {
    return std::ranges::any_of(graph_.at(id).operands,
                               [&](ValueId operand) { return slice_[operand] >= 0; });
  }

  [[nodiscard]] ValueId sliced(ValueId old_id) const {
    const ValueId slice = slice_[old_id];
    return slice >= 0 ? slice : rewriter_.map(old_id);
  }

  ValueId gather(ValueId slice, const std::string& name) {
    return rewriter_.add({.op = ir::Op::all_gather,
                          .name = rewriter_.fresh_name(name + ".all_gather"),
                          .user_named = true,
                          .operands = {slice},
                          .attributes = {.axis = axis_}});
  }

  /// A slice keeps the name of the whole. But an output's name stays with the whole, so its slice
  /// is called `name`.slice; and an unnamed value that an update writes `state`.slice, so that
  /// later steps can name it.
  void name_slice(ValueId id, Node& node) {
    if (graph_.find_output(node.name) >= 0) {
      node.name = rewriter_.fresh_name(node.name + ".slice");
      return;
    }
    if (node.user_named) return;
    for (const ValueId user : users_[id]) {
      const Node& update = graph_.at(user);
      if (update.op != ir::Op::update || update.operands[1] != id || !region_.contains(user))
        continue;
      node.name = rewriter_.fresh_name(graph_.at(update.operands[0]).name + ".slice");
      node.user_named = true;
      return;
    }
  }

  /// Whether reduction `id` of a slice combines the slices of all ranks.
  [[nodiscard]] bool comes_out_whole(ValueId id) const {
    const Node& node = graph_.at(id);
    if (node.op != ir::Op::reduction) return false;
    const Node& slice = rewriter_.graph().at(sliced(node.operands.front()));
    return ir::reduces(node, slice.layout[axis_].dim);
  }

  /// Whether `id`, behind the gather, is sliced: by another operand, so that its slice is no other
  /// value than it is.
  [[nodiscard]] bool is_sliced_as_it_is(ValueId id) const {
    return graph_.at(id).layout[axis_].kind == Placement::Kind::sliced;
  }

  void slice_operand(ValueId id) {
    const ValueId operand = graph_.at(id).operands.front();
    Node node = graph_.at(id);
    node.operands = {
        add_moved(id, {.op = ir::Op::slice,
                       .name = rewriter_.fresh_name(graph_.at(operand).name + ".slice"),
                       .operands = {rewriter_.map(operand)},
                       .attributes = {.axis = axis_, .dim = gathered_dim(graph_, gather_)}})};
    rewriter_.set(id, rewriter_.add(std::move(node)));
  }

  /// Appends `node`, which stands for `id` or for its operand.
  ValueId add_moved(ValueId id, Node node) {
    try {
      return rewriter_.add(std::move(node));
    } catch (const ProgramError& error) {
      throw ScheduleError(quoted(graph_, id) + " cannot run on slices: " + error.what());
    }
  }

  void move_computation(ValueId id) {
    Node node = graph_.at(id);
    const bool whole = comes_out_whole(id);
    for (ValueId& operand : node.operands) operand = sliced(operand);
    const bool stays = whole || is_sliced_as_it_is(id);
    if (!stays) name_slice(id, node);
    const ValueId moved = add_moved(id, std::move(node));
    const bool is_slice = rewriter_.graph().at(moved).layout[axis_].kind == Placement::Kind::sliced;
    if (!whole && !is_slice) {
      throw ScheduleError(quoted(graph_, id) + " cannot run on slices: it looks up indices that " +
                          quoted(graph_, gather_) + " gathers");
    }
    if (stays) rewriter_.set(id, moved);
    if (whole) return;
    slice_[id] = moved;
    if (!stays && needed_whole(id)) rewriter_.set(id, gather(moved, graph_.at(id).name));
  }

  void move_update(ValueId id) {
    const Node& update = graph_.at(id);
    const ValueId state = update.operands[0];
    const ValueId value = update.operands[1];
    if (graph_.at(value).shape != update.shape) {
      throw ScheduleError(quoted(graph_, id) +
                          " broadcasts its value over the state; a slice of the value " +
                          "is no slice of the state");
    }
    const ValueId slice = sliced(value);
    slice_[id] = slice;
    const bool fits = rewriter_.graph().at(slice).layout == graph_.at(state).layout;
    Node node = update;
    node.operands = {rewriter_.map(state), fits ? slice : gather(slice, graph_.at(state).name)};
    rewriter_.set(id, rewriter_.add(std::move(node)));
  }

  const Graph& graph_;
  ValueId gather_;
  int axis_;
  std::set<ValueId> region_;
  std::set<ValueId> reductions_;
  const Indexed<std::vector<ValueId>>& users_;
  Rewriter rewriter_;
  Indexed<ValueId> slice_;
};

Graph apply_reorder(const Graph& graph, const Step& step) {
  const ValueId gather = require_value(graph, step.text("all_gather"));
  if (graph.at(gather).op != ir::Op::all_gather) {
    throw ScheduleError(quoted(graph, gather) +
                        " is no all_gather; computation moves across an all_gather, " +
                        "which splitting an all_reduce makes");
  }
  refuse_fused(graph, gather, reorder_before_fusing);
  return Reorder(graph, gather, find_region(graph, gather, step.list("before"))).run();
}

/// The reductions that `updates` need and that do not depend on the gather.
std::vector<std::string> reductions_beside(const Graph& graph, ValueId gather,
                                           const std::vector<std::string>& updates) {
  const ValueSet behind = descendants(graph, {gather});
  std::set<ValueId> found;
  for (const std::string& update : updates) found.merge(reductions_of(graph, graph.find(update)));
  std::vector<std::string> names;
  for (const ValueId id : found) {
    if (!behind.contains(id)) names.push_back(graph.at(id).name);
  }
  return names;
}

std::vector<Step> reorder_candidates(const Graph& graph) {
  std::vector<Step> steps;
  for (ValueId gather = 0; gather < graph.size(); ++gather) {
    if (graph.at(gather).op != ir::Op::all_gather) continue;
    std::vector<std::string> ends;  // of the computation: what is written, read, or sent
    for (const ValueId id : descendants(graph, {gather})) {
      const Node& node = graph.at(id);
      const bool writes = node.op == ir::Op::update && node.operands[1] != gather;
      const bool sends =
          node.op == ir::Op::send && node.attributes.axis != graph.at(gather).attributes.axis;
      const bool gives = ir::is_elementwise(node.op) && graph.is_output(id);
      if (writes || sends || gives) ends.push_back(node.name);
    }
    if (ends.empty()) continue;
    Step step = complete({"reorder", {{"all_gather", graph.at(gather).name}, {"before", ends}}});
    if (is_legal(graph, step)) steps.push_back(step);
    std::vector<std::string> with_reductions = reductions_beside(graph, gather, ends);
    if (with_reductions.empty()) continue;
    with_reductions.insert(with_reductions.end(), ends.begin(), ends.end());
    step.arguments["before"] = std::move(with_reductions);
    if (is_legal(graph, step)) steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

constinit const Transformation reorder_transformation{
    "reorder", "moves computation across an all_gather, so that it runs on slices",
    reorder_parameters, apply_reorder, reorder_candidates};

}  // namespace coconet::sched
