// Rewrites that turn reductions across ranks and late reads of a state into what can be run, and
// shared values into what need not be stored.
#include "sched/expand.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "ir/factors.h"
#include "sched/groups.h"
#include "sched/knobs.h"
#include "sched/overlaps.h"
#include "sched/rewrite.h"

namespace coconet::sched {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

Node cast_of(ValueId value, DType dtype) {
  return {.op = Op::cast, .operands = {value}, .attributes = {.dtype = dtype}};
}

}  // namespace

Graph drop_marks(const Graph& graph) {
  const auto marks = [](const Node& node) {
    return node.op == Op::stop_gradient || node.op == Op::in_range;
  };
  if (std::ranges::none_of(graph.nodes(), marks)) return graph;
  Rewriter rewriter(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.at(id);
    const bool is_named = graph.fusion_of(id) != nullptr || graph.is_output(id);
    if (marks(node) && !is_named) {
      rewriter.set(id, rewriter.map(node.operands.front()));
    } else {
      rewriter.copy(id);
    }
  }
  return rewriter.finish();
}

namespace {

/// Writes pads as other ops, in the kernels that they are in.
class PadExpansion {
 public:
  explicit PadExpansion(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.at(id).op == Op::pad) {
        rewriter_.set(id, expand(id));
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  ValueId expand(ValueId id) {
    Node pad = graph_.at(id);
    fusion_ = graph_.fusion_index(id);
    name_ = pad.name;
    const ir::Attributes& own = pad.attributes;
    const Dim& extent = graph_.at(pad.operands.front()).shape[own.dim];
    Shape places(pad.shape.begin() + own.dim, pad.shape.end());
    for (std::size_t d = 1; d < places.size(); ++d) places[d] = Dim(1);
    const DType counted =
        places.front().extent > std::numeric_limits<std::int32_t>::max() ? DType::i64 : DType::i32;
    const ValueId place =
        add({.op = Op::iota, .attributes = {.shape = places, .dtype = counted}}, ".place");
    const ValueId before = number(static_cast<double>(own.before));
    const ValueId end = number(static_cast<double>(own.before + extent.extent));
    const ValueId index = add({.op = Op::subtract, .operands = {place, before}}, ".index");
    const ValueId taken = add({.op = Op::take,
                               .operands = {rewriter_.map(pad.operands.front()), index},
                               .attributes = {.dim = own.dim}},
                              ".taken");
    const ValueId zero = number(0);
    const ValueId is_before = add({.op = Op::less, .operands = {place, before}}, ".is_before");
    const ValueId is_behind =
        add({.op = Op::greater_equal, .operands = {place, end}}, ".is_behind");
    const ValueId either =
        add({.op = Op::logical_or, .operands = {is_before, is_behind}}, ".is_zero");
    pad.op = Op::select;
    pad.operands = {either, zero, taken};
    pad.attributes = {};
    return add(std::move(pad), "");
  }

  /// Of a kernel if the pad is.
  ValueId add(Node node, const std::string& suffix) {
    if (!suffix.empty()) node.name = rewriter_.fresh_name(name_ + suffix);
    const ValueId id = rewriter_.add(std::move(node));
    if (fusion_ >= 0) rewriter_.join(fusion_, id);
    return id;
  }
  ValueId number(double value) {
    return rewriter_.add({.op = Op::constant, .attributes = {.number = value}});
  }

  const Graph& graph_;
  Rewriter rewriter_;
  int fusion_ = -1;
  std::string name_;
};

}  // namespace

Graph expand_pads(const Graph& graph) {
  const auto pads = [](const Node& node) { return node.op == Op::pad; };
  return std::ranges::any_of(graph.nodes(), pads) ? PadExpansion(graph).run() : graph;
}

Graph expand_cross_rank_reductions(const Graph& graph) {
  Rewriter rewriter(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.at(id);
    std::vector<int> axes;
    if (node.op == Op::reduction && graph.fusion_of(id) == nullptr) {
      const ir::Placements& layout = graph.at(node.operands.front()).layout;
      for (std::size_t axis = 0; axis < layout.size(); ++axis) {
        if (layout[axis].kind == Placement::Kind::sliced && ir::reduces(node, layout[axis].dim)) {
          axes.push_back(static_cast<int>(axis));
        }
      }
    }
    if (axes.empty()) {
      rewriter.copy(id);
      continue;
    }
    // The shares of 16-bit sums and products stay f32 until all ranks' are combined: they are
    // rounded once. Max and min need no rounding.
    const Reduction reduction = node.attributes.reduction;
    const bool rounds = reduction == Reduction::sum || reduction == Reduction::prod;
    const bool widens = is_16_bit(node.dtype) && rounds;
    const std::string name = widens ? rewriter.fresh_name(node.name + ".f32") : node.name;
    ValueId value = rewriter.map(node.operands.front());
    if (widens) value = rewriter.add(cast_of(value, DType::f32));
    Node partial = node;
    partial.name = rewriter.fresh_name(node.name + ".partial");
    partial.operands = {value};
    partial.attributes.partial = true;
    value = rewriter.add(std::move(partial));
    for (const int axis : axes) {
      value = rewriter.add({.op = Op::all_reduce,
                            .name = axis == axes.back() ? name : "",
                            .user_named = node.user_named,
                            .origin = node.origin,
                            .operands = {value},
                            .attributes = {.reduction = reduction, .axis = axis}});
    }
    if (widens) {
      Node rounded = cast_of(value, node.dtype);
      rounded.name = node.name;
      rounded.user_named = node.user_named;
      rounded.origin = node.origin;
      value = rewriter.add(std::move(rounded));
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
    const bool taken = std::ranges::find(node.layout, sliced(dim)) != node.layout.end();
    if (!taken && !(node.shape[dim] == Dim(1))) return dim;
  }
  return -1;
}

/// Computes a cast that widens 16-bit floats once for each kernel that reads it.
class SharedWidening {
 public:
  explicit SharedWidening(const Graph& graph)
      : graph_(graph), users_(graph.users()), rewriter_(graph) {
    for (ValueId id = 0; id < graph.size(); ++id) is_shared_.push_back(is_shared_widening(id));
  }

  Graph run() {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      Node node = graph_.at(id);
      for (ValueId& operand : node.operands)
        operand = computes(id, operand) ? computed_by(id, operand) : rewriter_.map(operand);
      if (is_needed(id)) rewriter_.set(id, rewriter_.add(std::move(node)));
    }
    return rewriter_.finish();
  }

 private:
  /// The kernel of the schedule that `id` is in; what is in none counts as one of its own, since
  /// grouping puts what only one value reads into that value's kernel.
  [[nodiscard]] std::int64_t place_of(ValueId id) const {
    return graph_.fusion_index(id) >= 0 ? graph_.size() + graph_.fusion_index(id) : id;
  }

  /// Whether `id` is such a cast, of which no one else needs the result in memory.
  [[nodiscard]] bool is_shared_widening(ValueId id) const {
    const Node& node = graph_.at(id);
    if (node.op != Op::cast || node.weak || !is_float(node.dtype) || is_16_bit(node.dtype) ||
        !is_16_bit(graph_.at(node.operands.front()).dtype))
      return false;
    const auto& users = users_[id];
    const auto is_beside = [&](ValueId user) { return place_of(user) == place_of(id); };
    // A kernel that reads it nowhere is there to hand it on.
    const bool is_result = graph_.fusion_index(id) >= 0 && std::ranges::none_of(users, is_beside);
    const bool is_shared = std::ranges::any_of(
        users, [&](ValueId user) { return place_of(user) != place_of(users.front()); });
    return is_shared && !is_result && !graph_.is_output(id) && !graph_.arrives(id);
  }

  /// Whether `reader` is in a kernel that computes `cast` for itself.
  [[nodiscard]] bool computes(ValueId reader, ValueId cast) const {
    const Op op = graph_.at(reader).op;
    const bool in_kernel = (ir::is_elementwise(op) && !ir::reads_memory(op)) || op == Op::reduction;
    if (!in_kernel || place_of(reader) == place_of(cast) || !is_shared_[cast]) return false;
    // Kernels that exchange chunks through mailboxes take no scattered tensors.
    const bool is_scattered = graph_.at(graph_.at(cast).operands.front()).attributes.scattered;
    if (!is_scattered || graph_.fusion_index(reader) < 0) return true;
    const ir::Fusion& fusion = graph_.fusions()[graph_.fusion_index(reader)];
    return fusion.kind == ir::Fusion::Kind::computation || works_in_place(fusion.knobs);
  }

  [[nodiscard]] bool is_needed(ValueId id) const {
    return graph_.fusion_index(id) >= 0 || !is_shared_[id] ||
           !std::ranges::all_of(users_[id], [&](ValueId user) { return computes(user, id); });
  }

  ValueId computed_by(ValueId reader, ValueId cast) {
    const auto [found, is_new] = computed_.try_emplace({cast, place_of(reader)}, -1);
    if (!is_new) return found->second;
    Node node = graph_.at(cast);
    const bool is_first = rewriter_.map(cast) < 0;
    if (!is_first) node.name = rewriter_.fresh_name(node.name);
    node.operands = {rewriter_.map(node.operands.front())};
    const ValueId id = rewriter_.add(std::move(node));
    if (is_first) rewriter_.set(cast, id);
    if (graph_.fusion_index(reader) >= 0) rewriter_.join(graph_.fusion_index(reader), id);
    found->second = id;
    return id;
  }

  const Graph& graph_;
  const Indexed<std::vector<ValueId>>& users_;
  Rewriter rewriter_;
  Indexed<bool> is_shared_;
  std::map<std::pair<ValueId, std::int64_t>, ValueId> computed_;  ///< by cast and reader's place
};

}  // namespace

Graph expand_fused_all_reduces(const Graph& graph) {
  Rewriter rewriter(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (graph.at(id).op != Op::all_reduce || graph.fusion_of(id) == nullptr) {
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
    second.operands = {rewriter.add(std::move(first))};
    rewriter.join(graph.fusion_index(id), second.operands.front());
    rewriter.set(id, rewriter.add(std::move(second)));
  }
  return rewriter.finish();
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
    copies[id] = rewriter.add({.op = Op::copy,
                               .name = rewriter.fresh_name(graph.at(id).name + ".old"),
                               .operands = {rewriter.map(id)}});
  }
  return rewriter.finish();
}

Graph expand_shared_widening(const Graph& graph) {
  return SharedWidening(graph).run();
}

}  // namespace coconet::sched
