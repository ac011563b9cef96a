// Grouping of values into steps and the order of the steps.
#include "sched/groups.h"

#include <algorithm>
#include <set>

#include "coconet/error.h"
#include "sched/behind_cycles.h"
#include "sched/overlaps.h"

namespace coconet::sched {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

class Grouping {
 public:
  explicit Grouping(const Graph& graph)
      : graph_(graph), users_(graph.users()), of_(graph.nodes().size(), -1) {}

  Groups run() {
    form();
    return order();
  }

  std::map<ValueId, std::set<ValueId>> overwritten_reads() {
    form();
    std::vector<std::set<int>> needs = data_dependences();
    const std::vector<bool> may_wait = behind_cycles(all_dependences());
    std::map<ValueId, std::set<ValueId>> late;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.at(id).op != Op::update) continue;
      const ValueId state = graph_.at(id).operands[0];
      for (const ValueId reader : old_readers(id)) {
        if (reaches(needs, may_wait, of(reader), of(id))) {
          late[state].insert(reader);
        } else {
          needs[of(id)].insert(of(reader));
        }
      }
      for (const ValueId reader : users_[state]) {
        const bool is_beside = reader != id && of(reader) == of(id);
        // A view reads what another lane writes.
        if (is_beside && (peers_overwrite(id) || ir::reads_elsewhere(graph_.at(reader), state)))
          late[state].insert(reader);
      }
    }
    return late;
  }

 private:
  /// Whether `fusion` is of collectives over one rank alone, and nobody waits for its tiles: they
  /// are left to the library, which has nothing to do.
  [[nodiscard]] bool changes_nothing(const ir::Fusion& fusion) const {
    return fusion.arriving.empty() && std::ranges::all_of(fusion.members, [&](ValueId member) {
             return is_over_one_rank(graph_, member) && !graph_.arrives(member);
           });
  }

  void form() {
    for (const ir::Fusion& fusion : graph_.fusions()) {
      if (changes_nothing(fusion)) continue;
      const int group =
          open(fusion.kind == ir::Fusion::Kind::computation ? Group::Kind::computation
                                                            : Group::Kind::collective);
      groups_[group].fusion = &fusion;
      for (const ValueId member : fusion.members) join(member, group);
    }
    for (ValueId id = graph_.size() - 1; id >= 0; --id) {
      const Node& node = graph_.at(id);
      if (of(id) >= 0 || node.weak || ir::states_type(node.op)) continue;
      if (ir::is_collective(node.op)) {
        join(id, open(Group::Kind::library));
      } else if (ir::kind_of(node.op) == ir::OpKind::product) {
        join(id, open(Group::Kind::matmul));
      } else if (node.op == Op::reduction) {
        join(id, open(Group::Kind::reduction));
      } else if (node.op == Op::update && writes_through(graph_, id)) {
        pending_.push_back(id);
      } else {
        const int reader = only_reader(id);
        join(id, reader >= 0 ? reader : open(Group::Kind::computation));
      }
    }
    for (const ValueId id : pending_) join(id, of(graph_.at(id).operands[1]));
    join_biases();
    for (Group& group : groups_) std::ranges::sort(group.values);
  }

  /// The product of f32 to whose rows `id` alone adds a bias of one row; -1 when `id` is something
  /// else. Of 16-bit floats a product is rounded before the bias is added, which libraries do not
  /// do in one step.
  [[nodiscard]] ValueId biased_product(ValueId id) const {
    const Node& sum = graph_.at(id);
    if (sum.op != Op::add || sum.dtype != DType::f32 || graph_.arrives(id)) return -1;
    for (const std::size_t side : {0, 1}) {
      const ValueId product = sum.operands[side];
      const Node& matmul = graph_.at(product);
      const Node& bias = graph_.at(sum.operands[1 - side]);
      if (matmul.op != Op::matmul || matmul.shape != sum.shape || matmul.layout != sum.layout ||
          product == sum.operands[1 - side] || users_[product].size() > 1 ||
          graph_.is_output(product))
        continue;
      const bool is_row = !bias.weak && !bias.attributes.scattered && !bias.shape.empty() &&
                          bias.shape.back() == sum.shape.back() &&
                          std::all_of(bias.shape.begin(), bias.shape.end() - 1,
                                      [](const Dim& dim) { return dim == Dim(1); });
      if (is_row) return product;
    }
    return -1;
  }

  /// Moves the sum of a product and a bias, where a kernel would do nothing else, into the step of
  /// the product.
  void join_biases() {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const ValueId product = of(id) < 0 ? -1 : biased_product(id);
      if (product < 0) continue;
      Group& kernel = groups_[of(id)];
      if (kernel.fusion != nullptr || kernel.values.size() > 1) continue;
      kernel.values.clear();
      join(id, of(product));
    }
    std::vector<int> place(groups_.size(), -1);
    std::vector<Group> filled;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].values.empty()) continue;
      place[group] = static_cast<int>(filled.size());
      filled.push_back(std::move(groups_[group]));
    }
    groups_ = std::move(filled);
    for (int& group : of_) group = group < 0 ? group : place[group];
  }

  [[nodiscard]] int of(ValueId id) const { return of_[id]; }
  int open(Group::Kind kind) {
    groups_.push_back({kind, {}, nullptr, false});
    return static_cast<int>(groups_.size()) - 1;
  }
  void join(ValueId id, int group) {
    of_[id] = group;
    groups_[group].values.push_back(id);
  }

  /// The kernel that can compute elementwise `id` on the fly, because it alone reads it; -1 when
  /// there is none.
  [[nodiscard]] int only_reader(ValueId id) const {
    const Op op = graph_.at(id).op;
    if (!ir::is_elementwise(op) || op == Op::copy || graph_.is_output(id)) return -1;
    int reader = -1;
    for (const ValueId user : users_[id]) {
      const Node& node = graph_.at(user);
      const bool whole_operand =
          node.op == Op::reduction && node.shape.size() <= graph_.at(id).shape.size();
      const bool in_memory =
          ir::is_gather(node.op) ? ir::reads_elsewhere(node, id) : ir::reads_memory(node.op);
      if (in_memory || (node.op == Op::reduction && !whole_operand)) return -1;
      if (reader >= 0 && reader != of(user)) return -1;
      reader = of(user);
      if (reader < 0) return -1;
    }
    return reader;
  }

  /// By group, those whose results it reads.
  [[nodiscard]] std::vector<std::set<int>> data_dependences() const {
    std::vector<std::set<int>> needs(groups_.size());
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (of(id) < 0) continue;
      for (const ValueId operand : graph_.at(id).operands) {
        if (of(operand) >= 0 && of(operand) != of(id)) needs[of(id)].insert(of(operand));
      }
    }
    return needs;
  }

  /// What reads, in other groups, the old value of the state that `update` writes.
  [[nodiscard]] std::vector<ValueId> old_readers(ValueId update) const {
    std::vector<ValueId> readers;
    for (const ValueId reader : users_[graph_.at(update).operands[0]]) {
      if (of(reader) >= 0 && of(reader) != of(update)) readers.push_back(reader);
    }
    return readers;
  }

  /// Whether what `update` writes comes from other ranks, in place or through mailboxes, while this
  /// rank's kernel may still read the state. What is gathered comes from the rank that alone reads
  /// the same elements.
  [[nodiscard]] bool peers_overwrite(ValueId update) const {
    const ValueId value = graph_.at(update).operands[1];
    const Op op = graph_.at(value).op;
    const ir::Fusion* const fusion = groups_[of(update)].fusion;
    return fusion != nullptr && of(value) == of(update) && (op == Op::send || op == Op::broadcast);
  }

  /// Those, and where a group writes a state, the groups that read its old value.
  [[nodiscard]] std::vector<std::set<int>> all_dependences() const {
    std::vector<std::set<int>> needs = data_dependences();
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.at(id).op != Op::update) continue;
      for (const ValueId reader : old_readers(id)) needs[of(id)].insert(of(reader));
    }
    return needs;
  }

  /// Whether group `from` needs group `to`, directly or through others, all of them of `may_wait`.
  static bool reaches(const std::vector<std::set<int>>& needs, const std::vector<bool>& may_wait,
                      int from, int to) {
    if (!may_wait[static_cast<std::size_t>(from)]) return false;
    std::set<int> seen = {from};
    std::vector<int> pending = {from};
    while (!pending.empty()) {
      const int group = pending.back();
      pending.pop_back();
      if (group == to) return true;
      for (const int need : needs[group]) {
        if (may_wait[static_cast<std::size_t>(need)] && seen.insert(need).second)
          pending.push_back(need);
      }
    }
    return false;
  }

  [[nodiscard]] ValueId first_value(int group) const { return groups_[group].values.front(); }

  /// The groups, each with those that run beside it, in the order of what they hand on.
  [[nodiscard]] Indexed<std::vector<int>> find_chains() const {
    Indexed<std::vector<int>> chains;
    std::set<int> followed;
    const auto before = [&](int group) {
      const ir::Fusion* const fusion = groups_[group].fusion;
      return fusion == nullptr || fusion->arriving.empty() ? -1 : of(fusion->arriving.front());
    };
    const int count = static_cast<int>(groups_.size());
    for (int group = 0; group < count; ++group) followed.insert(before(group));
    for (int last = 0; last < count; ++last) {
      if (followed.contains(last)) continue;
      std::vector<int> chain;
      for (int group = last; group >= 0; group = before(group)) chain.insert(chain.begin(), group);
      chains.push_back(std::move(chain));
    }
    return chains;
  }

  Groups order() const {
    const std::vector<std::set<int>> needs = all_dependences();
    const Indexed<std::vector<int>> chains = find_chains();
    Indexed<int> chain_of(groups_.size(), -1);
    for (int chain = 0; chain < chains.count(); ++chain) {
      for (const int group : chains[chain]) chain_of[group] = chain;
    }
    Indexed<std::vector<int>> needed_by(chains.count());
    Indexed<int> missing(chains.count(), 0);
    for (std::size_t group = 0; group < needs.size(); ++group) {
      for (const int need : needs[group]) {
        if (chain_of[need] == chain_of[group]) continue;
        needed_by[chain_of[need]].push_back(chain_of[group]);
        ++missing[chain_of[group]];
      }
    }
    std::set<std::pair<ValueId, int>> ready;  // chains, by their first value
    const auto add_ready = [&](int chain) {
      if (missing[chain] == 0) ready.emplace(first_value(chains[chain].front()), chain);
    };
    for (int chain = 0; chain < chains.count(); ++chain) add_ready(chain);
    Indexed<int> position(groups_.size(), -1);
    Groups result;
    result.of.assign(graph_.nodes().size(), -1);
    while (!ready.empty()) {
      const int next = ready.begin()->second;
      ready.erase(ready.begin());
      for (const int g : chains[next]) {
        position[g] = static_cast<int>(result.groups.size());
        result.groups.push_back(groups_[g]);
        result.groups.back().beside_previous = g != chains[next].front();
      }
      for (const int reader : needed_by[next]) {
        --missing[reader];
        add_ready(reader);
      }
    }
    if (result.groups.size() < groups_.size())
      throw InternalError("the kernels of program '" + graph_.name + "' wait for each other");
    for (std::size_t id = 0; id < of_.size(); ++id) {
      if (of_[id] >= 0) result.of[id] = position[of_[id]];
    }
    return result;
  }

  const Graph& graph_;
  const Indexed<std::vector<ValueId>>& users_;
  Indexed<Group> groups_;
  Indexed<int> of_;
  std::vector<ValueId> pending_;  ///< updates that their value's producer writes
};

}  // namespace

bool is_over_one_rank(const Graph& graph, ValueId value) {
  const Node& node = graph.at(value);
  return ir::is_collective(node.op) && node.op != Op::send &&
         graph.mesh.axes()[node.attributes.axis].size == 1;
}

bool writes_through(const Graph& graph, ValueId id) {
  const Node& update = graph.at(id);
  const ValueId value = update.operands[1];
  const Node& from = graph.at(value);
  return ir::is_collective(from.op) && from.operands[0] != update.operands[0] &&
         from.shape == update.shape && from.layout == update.layout &&
         graph.users()[value].size() == 1 && !graph.is_output(value);
}

Groups make_groups(const Graph& graph) {
  return Grouping(graph).run();
}

std::map<ValueId, std::set<ValueId>> overwritten_reads(const Graph& graph) {
  return Grouping(graph).overwritten_reads();
}

}  // namespace coconet::sched
