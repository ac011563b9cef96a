// The kernels that a tuner may make of a program.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "ir/ascii.h"
#include "ir/factors.h"
#include "sched/kernels.h"
#include "sched/transforms/fuse.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// A name of `kind` that no kernel has.
std::string kernel_name(const Graph& graph, Fusion::Kind kind) {
  std::string stem = fmt::format("{}_{}", graph.name, to_string(kind));
  std::ranges::replace_if(
      stem, [](char c) { return !ir::is_word(c); }, '_');
  if (ir::is_digit(stem.front())) stem = '_' + stem;
  const auto taken = [&](const std::string& name) {
    return std::ranges::any_of(graph.fusions(),
                               [&](const Fusion& fusion) { return fusion.name == name; });
  };
  std::string name = stem;
  for (int number = 2; taken(name); ++number) name = fmt::format("{}_{}", stem, number);
  return name;
}

/// The step that makes a kernel of `kind` of `ops`, under a name that no kernel has:
/// "adam_all_reduce", and "adam_all_reduce_2" where there is one already.
Step fuse_step(const Graph& graph, Fusion::Kind kind, const std::set<ValueId>& ops) {
  std::vector<std::string> names;
  for (const ValueId id : ops) names.push_back(graph.at(id).name);
  return complete({"fuse",
                   {{"kernel", kernel_name(graph, kind)},
                    {"kind", std::string(to_string(kind))},
                    {"ops", std::move(names)}}});
}

class Proposals {
 public:
  explicit Proposals(const Graph& graph) : graph_(graph), users_(graph.users()) {}

  std::vector<Step> all() {
    propose_computations();
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.fusion_of(id) != nullptr) continue;
      const Op op = graph_.at(id).op;
      if (op == Op::all_reduce) propose(Fusion::Kind::all_reduce, with_updates(id));
      if (op == Op::reduce_scatter)
        propose_combine(id, Fusion::Kind::reduce_scatter, Op::all_gather);
      if (op == Op::reduce) propose_combine(id, Fusion::Kind::reduce, Op::broadcast);
      if (op == Op::all_gather) propose_spread(id, Fusion::Kind::all_gather);
      if (op == Op::broadcast) propose_spread(id, Fusion::Kind::broadcast);
      if (op == Op::send) propose_spread(id, Fusion::Kind::send);
    }
    return std::move(steps_);
  }

 private:
  /// Whether `id` is work that a kernel does beside its collectives, and that no kernel does yet.
  [[nodiscard]] bool is_computed(ValueId id) const {
    const Node& node = graph_.at(id);
    const bool computes =
        ir::is_elementwise(node.op) || node.op == Op::update || node.op == Op::reduction;
    return computes && !node.weak && graph_.fusion_of(id) == nullptr;
  }

  /// What is computed from `from` before the next collective or matmul.
  [[nodiscard]] std::set<ValueId> computed_from(ValueId from) const {
    std::set<ValueId> found;
    for (ValueId id = from + 1; id < graph_.size(); ++id) {
      const auto& operands = graph_.at(id).operands;
      if (is_computed(id) && std::ranges::any_of(operands, [&](ValueId operand) {
            return operand == from || found.contains(operand);
          }))
        found.insert(id);
    }
    return found;
  }

  /// What `to` is computed from, back to the last collectives and matmuls, and the updates that
  /// write it.
  [[nodiscard]] std::set<ValueId> computed_for(ValueId to) const {
    std::set<ValueId> found;
    for (ValueId id = to - 1; id >= 0; --id) {
      if (is_computed(id) && std::ranges::any_of(users_[id], [&](ValueId user) {
            return user == to || found.contains(user);
          }))
        found.insert(id);
    }
    std::set<ValueId> with_updates_of_it = found;
    for (const ValueId id : found) with_updates_of_it.merge(with_updates(id));
    return with_updates_of_it;
  }

  /// Reductions compute what they alone read.
  [[nodiscard]] bool is_read_outside(ValueId id, const std::set<ValueId>& inside) const {
    return graph_.is_output(id) || std::ranges::any_of(users_[id], [&](ValueId user) {
             return !inside.contains(user) && graph_.at(user).op != Op::reduction;
           });
  }

  /// Of `computed`, what a kernel whose domain is that of `domain` hands out, states of numbers
  /// included; the rest joins it.
  [[nodiscard]] std::set<ValueId> results(const std::set<ValueId>& computed, ValueId domain) const {
    std::set<ValueId> found;
    for (const ValueId id : computed) {
      const Node& node = graph_.at(id);
      const bool leaves = node.op == Op::update || is_read_outside(id, computed);
      const bool in_domain =
          node.shape == graph_.at(domain).shape && node.layout == graph_.at(domain).layout;
      const bool number = node.op == Op::update && is_scalar(graph_, domain, id);
      if (leaves && (in_domain || number)) found.insert(id);
    }
    return found;
  }

  /// `id` and the updates that write it.
  [[nodiscard]] std::set<ValueId> with_updates(ValueId id) const {
    std::set<ValueId> found = {id};
    for (const ValueId user : users_[id]) {
      const Node& node = graph_.at(user);
      if (node.op == Op::update && node.operands[1] == id && graph_.fusion_of(user) == nullptr)
        found.insert(user);
    }
    return found;
  }

  /// Whether what makes `made` ends what one kernel of computation can do, seen from `reader`.
  [[nodiscard]] bool divides(ValueId made, ValueId reader) const {
    const ir::OpKind kind = ir::kind_of(graph_.at(made).op);
    return kind == ir::OpKind::reduction || kind == ir::OpKind::product ||
           kind == ir::OpKind::collective || ir::reads_elsewhere(graph_.at(reader), made);
  }
  /// Whether update `id` only writes what a collective makes, which then needs no kernel.
  [[nodiscard]] bool only_writes(ValueId id) const {
    const Node& node = graph_.at(id);
    return node.op == Op::update && ir::is_collective(graph_.at(node.operands[1]).op);
  }

  /// For each value how many reductions, collectives, matmuls and views are to be awaited before it
  /// is computed, where everything is computed as late as what reads it.
  [[nodiscard]] Indexed<int> count_waits() const {
    Indexed<int> waits(graph_.nodes().size(), 0);
    for (ValueId id = 0; id < graph_.size(); ++id) {
      for (const ValueId operand : graph_.at(id).operands)
        waits[id] = std::max(waits[id], waits[operand] + (divides(operand, id) ? 1 : 0));
    }
    for (ValueId id = graph_.size() - 1; id >= 0; --id) {
      if (!ir::is_elementwise(graph_.at(id).op) || graph_.is_output(id) || users_[id].empty())
        continue;
      int latest = std::numeric_limits<int>::max();
      for (const ValueId user : users_[id])
        latest = std::min(latest, waits[user] - (divides(id, user) ? 1 : 0));
      waits[id] = latest;
    }
    return waits;
  }

  /// One kernel for all that is computed over one domain between the same reductions, collectives
  /// and matmuls.
  void propose_computations() {
    using Domain = std::tuple<int, std::string, std::string>;
    std::map<Domain, std::set<ValueId>> regions;
    const Indexed<int> waits = count_waits();
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.at(id);
      if (!is_computed(id) || node.op == Op::reduction || only_writes(id)) continue;
      regions[{waits[id], ir::to_string(node.shape), ir::to_string(node.layout, graph_.mesh)}]
          .insert(id);
    }
    for (const auto& [domain, region] : regions)
      propose(Fusion::Kind::computation, results(region, *region.begin()));
  }

  void propose_combine(ValueId combine, Fusion::Kind kind, Op spread) {
    const std::set<ValueId> computed = computed_from(combine);
    std::set<ValueId> ops = results(computed, combine);
    propose(kind, {combine});
    ops.insert(combine);
    propose(kind, ops);
    for (ValueId id = combine + 1; id < graph_.size(); ++id) {
      const Node& node = graph_.at(id);
      if (node.op != spread || graph_.fusion_of(id) != nullptr ||
          node.attributes.axis != graph_.at(combine).attributes.axis)
        continue;
      std::set<ValueId> whole = with_updates(id);
      whole.merge(updates_among(results(computed, combine)));
      whole.insert(combine);
      propose(Fusion::Kind::all_reduce, whole);
    }
  }

  void propose_spread(ValueId spread, Fusion::Kind kind) {
    std::set<ValueId> ops = with_updates(spread);
    propose(kind, ops);
    ops.merge(updates_among(results(computed_for(spread), graph_.at(spread).operands.front())));
    propose(kind, ops);
  }

  [[nodiscard]] std::set<ValueId> updates_among(std::set<ValueId> values) const {
    std::erase_if(values, [&](ValueId id) { return graph_.at(id).op != Op::update; });
    return values;
  }

  void propose(Fusion::Kind kind, const std::set<ValueId>& ops) {
    if (ops.empty()) return;
    Step step = fuse_step(graph_, kind, ops);
    const bool known = std::ranges::find(steps_, step) != steps_.end();
    if (!known && is_legal(graph_, step)) steps_.push_back(std::move(step));
  }

  const Graph& graph_;
  const Indexed<std::vector<ValueId>>& users_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> fuse_candidates(const Graph& graph) {
  return Proposals(graph).all();
}

}  // namespace coconet::sched
