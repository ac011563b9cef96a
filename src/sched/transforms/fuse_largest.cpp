// The largest kernels of a program: what may be in one kernel of each kind at most.
//
// The search begins with all ops that a kind takes and leaves out what breaks a rule. Where either
// of two parts can be left out it goes on with both, so that no legal kernel is lost: each is part
// of what the search ends with. The rules are those of sched/kernels.cpp, which has the last word.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "coconet/error.h"
#include "sched/kernels.h"
#include "sched/overlaps.h"
#include "sched/rewrite.h"
#include "sched/transforms/fuse.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;
using Ops = std::set<ValueId>;

/// Reachability where what runs as a whole is one: a kernel, and kernels that are overlapped.
class Reach {
 public:
  explicit Reach(const Graph& graph) : graph_(graph), whole_(graph.nodes().size(), -1) {
    std::iota(whole_.begin(), whole_.end(), 0);
    for (const Fusion& kernel : graph.fusions()) {
      for (const ValueId member : kernel.members) unite(member, kernel.members.front());
      for (const ValueId value : kernel.arriving) unite(value, kernel.members.front());
    }
    for (ValueId id = 0; id < graph.size(); ++id) members_[find(id)].push_back(id);
  }

  /// What `id` is computed from, and what is computed from it.
  [[nodiscard]] Ops before(ValueId id) const {
    return closure(id, [&](ValueId one) { return graph_.at(one).operands; });
  }
  [[nodiscard]] Ops behind(ValueId id) const {
    return closure(id, [&](ValueId one) { return users_[one]; });
  }

 private:
  [[nodiscard]] ValueId find(ValueId id) const {
    while (whole_[id] != id) id = whole_[id];
    return id;
  }
  void unite(ValueId a, ValueId b) { whole_[find(a)] = find(b); }

  template <class Next>
  [[nodiscard]] Ops closure(ValueId from, const Next& next) const {
    Ops found, wholes;
    std::vector<ValueId> pending = {from};
    while (!pending.empty()) {
      const ValueId whole = find(pending.back());
      pending.pop_back();
      if (!wholes.insert(whole).second) continue;
      for (const ValueId id : members_.at(whole)) {
        found.insert(id);
        for (const ValueId one : next(id)) pending.push_back(one);
      }
    }
    return found;
  }

  const Graph& graph_;
  const Indexed<std::vector<ValueId>>& users_ = graph_.users();
  Indexed<ValueId> whole_;
  std::map<ValueId, std::vector<ValueId>> members_;
};

class Largest {
 public:
  Largest(const Graph& graph, Fusion::Kind kind)
      : graph_(graph), kind_(kind), users_(graph.users()), reach_(graph) {}

  std::vector<Ops> run() {
    if (kind_ == Fusion::Kind::computation) {
      for (const Ops& part : connected(pointwise())) search_each_domain(part);
    } else {
      for (const Collective& collective : collectives()) search_around(collective);
    }
    std::vector<Ops> largest;
    for (const Ops& one : found_) {
      const bool is_part = std::any_of(found_.begin(), found_.end(), [&](const Ops& other) {
        return one != other && std::ranges::includes(other, one);
      });
      if (!is_part) largest.push_back(one);
    }
    return largest;
  }

 private:
  [[nodiscard]] bool is_free(ValueId id) const { return graph_.fusion_of(id) == nullptr; }

  [[nodiscard]] Ops pointwise() const {
    Ops ops;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.at(id);
      if (!node.weak && (ir::is_elementwise(node.op) || node.op == Op::update) && is_free(id))
        ops.insert(id);
    }
    return ops;
  }

  [[nodiscard]] std::vector<ValueId> all_of(Op op) const {
    std::vector<ValueId> found;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.at(id).op == op && is_free(id)) found.push_back(id);
    }
    return found;
  }

  /// Whether some kernel may hold both ends of `collective`, whatever is between them.
  [[nodiscard]] bool fits(const Collective& collective) const {
    for (const ValueId id : {collective.combine, collective.spread}) {
      if (id >= 0 && !live_.contains(id)) return false;
    }
    if (collective.combine < 0 || collective.spread < 0) return true;
    const Node& first = graph_.at(collective.combine);
    const Node& second = graph_.at(collective.spread);
    return is_like(collective.combine, second.operands.front()) &&
           first.attributes.axis == second.attributes.axis &&
           (first.op != Op::reduce || first.attributes.root == second.attributes.root);
  }

  /// Every choice of what a kernel of the kind combines and spreads with.
  [[nodiscard]] std::vector<Collective> collectives() const {
    std::vector<Collective> found;
    const auto add = [&](ValueId combine, ValueId spread) {
      const ValueId domain = combine >= 0 ? combine : graph_.at(spread).operands.front();
      const ValueId first = combine >= 0 ? combine : spread;
      const Collective one = {combine, spread, domain, graph_.at(first).attributes.axis};
      if (fits(one)) found.push_back(one);
    };
    const auto add_pairs = [&](Op combine, Op spread) {
      for (const ValueId one : all_of(combine)) {
        for (const ValueId other : all_of(spread)) add(one, other);
      }
    };
    const auto add_all = [&](Op op, bool combines) {
      for (const ValueId id : all_of(op)) combines ? add(id, -1) : add(-1, id);
    };
    switch (kind_) {
      case Fusion::Kind::computation:
        break;
      case Fusion::Kind::all_reduce:
        add_all(Op::all_reduce, true);
        add_pairs(Op::reduce_scatter, Op::all_gather);
        add_pairs(Op::reduce, Op::broadcast);
        break;
      case Fusion::Kind::reduce_scatter:
        add_all(Op::reduce_scatter, true);
        break;
      case Fusion::Kind::reduce:
        add_all(Op::reduce, true);
        break;
      case Fusion::Kind::all_gather:
        add_all(Op::all_gather, false);
        break;
      case Fusion::Kind::broadcast:
        add_all(Op::broadcast, false);
        break;
      case Fusion::Kind::send:
        add_all(Op::send, false);
        break;
    }
    return found;
  }

  [[nodiscard]] bool leaves(const Ops& ops, ValueId id) const {
    return graph_.is_output(id) || std::any_of(users_[id].begin(), users_[id].end(),
                                               [&](ValueId user) { return !ops.contains(user); });
  }
  [[nodiscard]] bool is_like(ValueId a, ValueId b) const {
    return graph_.at(a).shape == graph_.at(b).shape && graph_.at(a).layout == graph_.at(b).layout;
  }

  // ---- leaving out what no kernel of all these ops can hold

  void search_each_domain(const Ops& ops) {
    std::vector<ValueId> domains;
    for (const ValueId id : ops) {
      if (std::none_of(domains.begin(), domains.end(), [&](ValueId d) { return is_like(d, id); }))
        domains.push_back(id);
    }
    for (const ValueId domain : domains) {
      search(ops, {}, [this, domain](Ops& left) {
        std::erase_if(left, [&](ValueId id) {
          const bool is_result = graph_.at(id).op == Op::update || leaves(left, id);
          return is_result && !is_like(id, domain);
        });
      });
    }
  }

  void search_around(const Collective& collective) {
    const ValueId combine = collective.combine, spread = collective.spread;
    Ops ops = pointwise(), required;
    for (const ValueId id : {combine, spread}) {
      if (id >= 0) required.insert(id);
    }
    if (combine >= 0 && graph_.at(combine).op == Op::all_reduce) {
      std::erase_if(ops, [&](ValueId id) { return graph_.at(id).op != Op::update; });
    }
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (is_free(id) && reduces_domain(graph_, collective, id)) ops.insert(id);
    }
    ops.insert(required.begin(), required.end());
    if (combine >= 0) {
      const ValueSet before = ancestors(graph_, {combine});
      std::erase_if(ops, [&](ValueId id) { return id != combine && before.contains(id); });
    }
    search(ops, required, [this, collective](Ops& left) {
      const bool is_whole = collective.combine >= 0 && collective.spread >= 0;
      if (is_whole && !left.contains(graph_.at(collective.spread).operands.front())) left.clear();
      const ValueId handed_on = collective.spread >= 0 ? collective.spread
                                : graph_.at(collective.combine).op == Op::all_reduce
                                    ? collective.combine
                                    : -1;
      Ops spread_ones;
      if (handed_on >= 0) spread_ones = keep_spread(left, handed_on);
      std::erase_if(left, [&](ValueId id) {
        if (spread_ones.contains(id) || is_scalar(graph_, collective.domain, id)) return false;
        const bool is_result = graph_.at(id).op == Op::update || leaves(left, id);
        return is_result && !is_like(id, collective.domain);
      });
    });
  }

  /// Leaves out of `ops` what reads what `spread` hands on, but for the updates that it writes:
  /// those, and it, are returned.
  [[nodiscard]] Ops keep_spread(Ops& ops, ValueId spread) const {
    Ops handed_on = {spread}, out;
    for (const ValueId id : ops) {
      const Node& node = graph_.at(id);
      for (const ValueId operand : node.operands) {
        if (!handed_on.contains(operand)) continue;
        if (operand == spread && node.op == Op::update && is_like(id, spread)) {
          handed_on.insert(id);
        } else {
          out.insert(id);
        }
      }
    }
    for (const ValueId id : out) {
      ops.erase(id);
      handed_on.erase(id);
    }
    return handed_on;
  }

  // ---- the search

  using LeaveOut = std::function<void(Ops&)>;

  void search(Ops ops, const Ops& required, const LeaveOut& leave_out) {
    std::set<Ops> seen;
    std::vector<Ops> pending = {std::move(ops)};
    const auto go_on = [&](Ops next) {
      if (!next.empty() && std::ranges::includes(next, required) && seen.insert(next).second)
        pending.push_back(std::move(next));
    };
    while (!pending.empty()) {
      Ops now = std::move(pending.back());
      pending.pop_back();
      for (std::size_t before = now.size() + 1; before != now.size();) {
        before = now.size();
        leave_out(now);
      }
      if (now.empty() || !std::ranges::includes(now, required)) continue;
      const std::vector<Ops> parts = connected(now);
      if (parts.size() > 1) {
        for (const Ops& part : parts) go_on(part);
        continue;
      }
      if (const ValueId obstacle = find_obstacle(now); obstacle >= 0) {
        go_on(without(now, reach_.before(obstacle)));
        go_on(without(now, reach_.behind(obstacle)));
        continue;
      }
      if (is_legal(graph_, fuse_step(graph_, kind_, now))) {
        found_.insert(std::move(now));
        continue;
      }
      // Rules that say nothing of which ops to leave out: any may be. These are kernels of values
      // that nothing needs, which nobody looks for long.
      constexpr std::size_t most = 4096;
      if (seen.size() > most) continue;
      for (const ValueId id : now) go_on(without(now, {id}));
    }
  }

  static Ops without(const Ops& ops, const Ops& out) {
    Ops left;
    std::ranges::set_difference(ops, out, std::inserter(left, left.end()));
    return left;
  }

  /// `ops` in parts that share no value.
  [[nodiscard]] std::vector<Ops> connected(const Ops& ops) const {
    std::vector<Ops> parts;
    std::vector<Ops> values;  // of each part, and what it reads
    for (const ValueId id : ops) {
      Ops part = {id}, read = {id};
      for (const ValueId operand : graph_.at(id).operands) {
        if (!graph_.at(operand).weak) read.insert(operand);
      }
      for (std::size_t i = parts.size(); i-- > 0;) {
        if (std::none_of(read.begin(), read.end(),
                         [&](ValueId value) { return values[i].contains(value); }))
          continue;
        part.merge(parts[i]);
        read.merge(values[i]);
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
      }
      parts.push_back(std::move(part));
      values.push_back(std::move(read));
    }
    return parts;
  }

  /// A value outside of `ops` that is computed from one of them and that another one needs; -1 when
  /// there is none.
  [[nodiscard]] ValueId find_obstacle(const Ops& ops) const {
    for (const ValueId member : ops) {
      for (const ValueId operand : graph_.at(member).operands) {
        if (ops.contains(operand)) continue;
        const Ops before = reach_.before(operand);
        if (std::any_of(before.begin(), before.end(), [&](ValueId id) { return ops.contains(id); }))
          return operand;
      }
    }
    return -1;
  }

  const Graph& graph_;
  Fusion::Kind kind_;
  const Indexed<std::vector<ValueId>>& users_;
  Reach reach_;
  ValueSet live_ = live_values(graph_);
  std::set<Ops> found_;
};

/// Of `members` those to name: the others join them.
Ops names_for(const Graph& graph, Fusion::Kind kind, const Ops& members) {
  const auto made_of = [&](const Ops& ops) {
    const std::optional<Graph> after = try_transform(graph, fuse_step(graph, kind, ops));
    if (!after) return Ops();
    const std::vector<ValueId>& made = after->fusions().back().members;
    return Ops(made.begin(), made.end());
  };
  Ops named = members;
  for (const ValueId id : members) {
    Ops fewer = named;
    fewer.erase(id);
    if (!fewer.empty() && made_of(fewer) == members) named = std::move(fewer);
  }
  return named;
}

}  // namespace

std::vector<Ops> largest_kernels(const Graph& graph, Fusion::Kind kind) {
  return Largest(graph, kind).run();
}

std::vector<LegalStep> all_fuses(const Graph& graph) {
  std::vector<LegalStep> steps;
  std::vector<std::pair<std::string, Ops>> made;  // kind and members of each
  for (Step& step : fuse_candidates(graph)) {
    const std::optional<Graph> after = try_transform(graph, step);
    if (!after) continue;
    const std::vector<ValueId>& members = after->fusions().back().members;
    made.emplace_back(step.text("kind"), Ops(members.begin(), members.end()));
    steps.push_back({std::move(step)});
  }
  for (const Fusion::Kind kind : ir::fusion_kinds) {
    for (const Ops& largest : largest_kernels(graph, kind)) {
      const std::pair<std::string, Ops> one = {std::string(to_string(kind)), largest};
      std::size_t place = static_cast<std::size_t>(std::ranges::find(made, one) - made.begin());
      if (place == made.size()) {
        steps.push_back({fuse_step(graph, kind, names_for(graph, kind, largest))});
        made.push_back(one);
      }
      for (const ValueId id : largest) steps[place].any_of.push_back(graph.at(id).name);
    }
  }
  return steps;
}

}  // namespace coconet::sched
