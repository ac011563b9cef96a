// Writes appended values again: those that are needed, in an order of their own.
#include "ir/gradients/rewrite.h"

#include <algorithm>

namespace coconet::ir {

namespace {

class Rewrite {
 public:
  Rewrite(Graph& graph, ValueId first) : graph_(graph), first_(first) {
    for (ValueId id = first; id < graph.size(); ++id) old_.push_back(graph.at(id));
    needed_.assign(old_.size(), 0);
    written_.assign(old_.size(), -1);
    graph.drop_from(first);
  }

  void need(const std::vector<ValueId>& results) {
    for (const ValueId id : results) {
      if (id >= first_) needed_[id - first_] = 1;
    }
    for (ValueId id = first_ + old_.count() - 1; id >= first_; --id) {
      if (!needed_[id - first_]) continue;
      for (const ValueId from : old_[id - first_].operands) {
        if (from >= first_) needed_[from - first_] = 1;
      }
    }
  }

  void write(ValueId root) {
    if (root < first_ || !needed_[root - first_]) return;
    std::vector<ValueId> waiting = {root};
    while (!waiting.empty()) {
      const ValueId id = waiting.back();
      const auto is_missing = [&](ValueId from) { return written(from) < 0; };
      const auto& operands = old_[id - first_].operands;
      const auto next = std::ranges::find_if(operands, is_missing);
      if (next != operands.end()) {
        waiting.push_back(*next);
        continue;
      }
      if (is_missing(id)) written_[id - first_] = append_again(id);
      waiting.pop_back();
    }
  }

  /// Where the value `id` is now; -1: nowhere yet.
  [[nodiscard]] ValueId written(ValueId id) const {
    return id < first_ ? id : written_[id - first_];
  }

 private:
  ValueId append_again(ValueId id) {
    Node node = old_[id - first_];
    if (node.op == Op::constant) return constant_of(graph_, node.attributes.number);
    for (ValueId& from : node.operands) from = written(from);
    if (node.op == Op::multiply) {
      for (const std::size_t side : {0u, 1u}) {
        if (is_one(node.operands[side]) && is_like(node.operands[1 - side], node))
          return node.operands[1 - side];
      }
    }
    if (!node.user_named) {
      graph_.scope = scope_of(node);
      node.name.clear();  // which has its number
    }
    return append(graph_, std::move(node));
  }

  [[nodiscard]] bool is_one(ValueId id) const {
    return graph_.at(id).op == Op::constant && graph_.at(id).attributes.number == 1;
  }
  [[nodiscard]] bool is_like(ValueId id, const Node& node) const {
    const Node& other = graph_.at(id);
    return other.weak == node.weak && other.dtype == node.dtype && other.shape == node.shape &&
           other.layout == node.layout;
  }

  Graph& graph_;
  const ValueId first_;
  Indexed<Node> old_;         ///< by number after `first_`
  Indexed<char> needed_;      ///< likewise
  Indexed<ValueId> written_;  ///< likewise
};

}  // namespace

std::vector<ValueId> rewrite_from(Graph& graph, ValueId first, const std::vector<ValueId>& roots,
                                  const std::vector<ValueId>& results) {
  Rewrite rewrite(graph, first);
  rewrite.need(results);
  for (const ValueId root : roots) rewrite.write(root);
  std::vector<ValueId> now;
  for (const ValueId result : results) {
    rewrite.write(result);
    now.push_back(rewrite.written(result));
  }
  return now;
}

}  // namespace coconet::ir
