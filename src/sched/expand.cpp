// Rewrites that turn reductions across ranks and late reads of a state into what can be run.
#include "sched/expand.h"

#include <algorithm>
#include <map>
#include <set>

#include "sched/groups.h"
#include "sched/rewrite.h"

namespace coconet::sched {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

Graph expand_cross_rank_reductions(const Graph& graph) {
  Rewriter rewriter(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.at(id);
    std::vector<int> axes;
    if (node.op == Op::reduction && graph.fusion_of(id) == nullptr) {
      const auto& dims = node.attributes.dims;
      const ir::Placements& layout = graph.at(node.operands.front()).layout;
      for (std::size_t axis = 0; axis < layout.size(); ++axis) {
        if (layout[axis].kind == Placement::Kind::sliced &&
            std::binary_search(dims.begin(), dims.end(), layout[axis].dim)) {
          axes.push_back(static_cast<int>(axis));
        }
      }
    }
    if (axes.empty()) {
      rewriter.copy(id);
      continue;
    }
    Node partial = node;
    partial.name = rewriter.fresh_name(node.name + ".partial");
    partial.operands = {rewriter.map(node.operands.front())};
    partial.attributes.partial = true;
    ValueId value = rewriter.add(std::move(partial));
    for (const int axis : axes) {
      Node combine;
      combine.op = Op::all_reduce;
      combine.name = axis == axes.back() ? node.name : "";
      combine.user_named = node.user_named;
      combine.origin = node.origin;
      combine.operands = {value};
      combine.attributes.reduction = node.attributes.reduction;
      combine.attributes.axis = axis;
      value = rewriter.add(std::move(combine));
    }
    rewriter.set(id, value);
  }
  return rewriter.finish();
}

namespace {

/// A dimension of `id` that can be sliced along `axis` with a slice for every rank to work on; -1
/// when there is none.
int dimension_to_slice(const Graph& graph, ValueId id) {
  const Node& node = graph.at(id);
  for (int dim = 0; dim < static_cast<int>(node.shape.size()); ++dim) {
    const bool taken =
        std::find(node.layout.begin(), node.layout.end(), sliced(dim)) != node.layout.end();
    if (!taken && !(node.shape[dim] == Dim(1))) return dim;
  }
  return -1;
}

}  // namespace

Graph expand_fused_all_reduces(const Graph& graph) {
  Rewriter rewriter(graph);
  std::map<std::string, ValueId> first_halves;  // by kernel
  for (ValueId id = 0; id < graph.size(); ++id) {
    const ir::Fusion* const fusion = graph.fusion_of(id);
    if (graph.at(id).op != Op::all_reduce || fusion == nullptr) {
      rewriter.copy(id);
      continue;
    }
    const Node& all_reduce = graph.at(id);
    const int dim = dimension_to_slice(graph, id);
    Node first = all_reduce;
    first.op = dim >= 0 ? Op::reduce_scatter : Op::reduce;
    first.name = rewriter.fresh_name(all_reduce.name + (dim >= 0 ? ".reduce_scatter" : ".reduce"));
    first.operands = {rewriter.map(all_reduce.operands.front())};
    first.attributes.dim = std::max(dim, 0);
    Node second = all_reduce;
    second.op = dim >= 0 ? Op::all_gather : Op::broadcast;
    second.attributes = {};
    second.attributes.axis = all_reduce.attributes.axis;
    first_halves[fusion->name] = rewriter.add(std::move(first));
    second.operands = {first_halves[fusion->name]};
    rewriter.set(id, rewriter.add(std::move(second)));
  }
  Graph result = rewriter.finish();
  for (ir::Fusion& fusion : result.fusions) {
    const auto found = first_halves.find(fusion.name);
    if (found == first_halves.end()) continue;
    fusion.members.push_back(found->second);
    std::sort(fusion.members.begin(), fusion.members.end());
  }
  return result;
}

Graph expand_overwritten_reads(const Graph& graph) {
  const std::map<ValueId, std::set<ValueId>> late = overwritten_reads(graph);
  if (late.empty()) return graph;
  Rewriter rewriter(graph);
  std::map<ValueId, ValueId> copies;
  for (ValueId id = 0; id < graph.size(); ++id) {
    Node node = graph.at(id);
    for (ValueId& operand : node.operands) {
      const auto found = late.find(operand);
      operand = found != late.end() && found->second.contains(id) ? copies.at(operand)
                                                                  : rewriter.map(operand);
    }
    rewriter.set(id, rewriter.add(std::move(node)));
    if (!late.contains(id)) continue;
    Node copy;
    copy.op = Op::copy;
    copy.name = rewriter.fresh_name(graph.at(id).name + ".old");
    copy.operands = {rewriter.map(id)};
    copies[id] = rewriter.add(std::move(copy));
  }
  return rewriter.finish();
}

}  // namespace coconet::sched
