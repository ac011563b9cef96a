// A contraction is a product of matrices where, in each tensor, the contracted dimensions lie
// together in one order, and the last dimension is one of a matrix: libraries count elements of a
// row one after the other. All other dimensions may lie anywhere.
#include "sched/contractions.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/letters.h"
#include "sched/rewrite.h"

namespace coconet::sched {

using ir::Graph;
using ir::Letters;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// Those of `letters` that `from` has, and `without` has not, in their order.
std::string shared(const std::string& letters, const std::string& from,
                   const std::string& without = "") {
  std::string found;
  for (const char letter : letters) {
    if (has(from, letter) && !has(without, letter)) found += letter;
  }
  return found;
}

/// The order in which each tensor of a contraction is multiplied.
Letters multiplied(const Letters& given) {
  Letters direct = given;
  const std::string rows = shared(given.result, given.a, given.b);
  const std::string columns = shared(given.result, given.b, given.a);
  std::string batch;
  for (const char letter : given.result) {
    if (!has(rows, letter) && !has(columns, letter)) batch += letter;
  }
  // Elements of a row of the result are one after the other.
  if (!columns.empty() && has(batch, given.result.back())) direct.result = batch + rows + columns;
  const char last = direct.result.empty() ? ' ' : direct.result.back();
  const std::string contracted = given.contracted();
  const auto fits = [&](const std::string& own, const std::string& kept, bool makes_rows) {
    if (own.find(contracted) == std::string::npos) return false;
    if (kept.empty() || has(contracted, own.back())) return true;
    // One dimension of the result's rows is contiguous there and here; any of its columns here.
    return makes_rows ? own.back() == last : has(kept, own.back());
  };
  if (!fits(given.a, rows, has(rows, last) && !columns.empty()))
    direct.a = batch + rows + contracted;
  if (!fits(given.b, columns, has(columns, last))) direct.b = batch + columns + contracted;
  return direct;
}

/// Whether all dimensions are of a batch, so that there are no matrices.
bool is_elementwise(const Letters& letters) {
  const std::string& all = letters.result;
  return letters.a.size() == all.size() && letters.b.size() == all.size() &&
         letters.contracted().empty();
}

/// By dimension of a tensor with the letters `to`, the one of a tensor with the letters `from`.
std::vector<int> permutation(const std::string& from, const std::string& to) {
  std::vector<int> dims;
  for (const char letter : to) dims.push_back(static_cast<int>(from.find(letter)));
  return dims;
}

class Expansion {
 public:
  explicit Expansion(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (graph_.at(id).op == Op::contract) {
        contract(id);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  void contract(ValueId id) {
    Node node = graph_.at(id);
    const Letters given = ir::letters_in(node.attributes.letters);
    const Letters direct = is_elementwise(given) ? Letters{given.result, given.result, given.result}
                                                 : multiplied(given);
    for (const std::size_t side : {0, 1})
      node.operands[side] = transposed(node.operands[side], given.of(side), direct.of(side));
    if (is_elementwise(given)) {
      node.op = Op::multiply;
      node.attributes = {};
      rewriter_.set(id, rewriter_.add(std::move(node)));
      return;
    }
    node.attributes.letters = direct.str();
    if (direct.result == given.result) {
      rewriter_.set(id, rewriter_.add(std::move(node)));
      return;
    }
    Node result = graph_.at(id);
    node.name = rewriter_.fresh_name(node.name + ".product");
    result.op = Op::transpose;
    result.attributes = {};
    result.attributes.permutation = permutation(direct.result, given.result);
    result.operands = {rewriter_.add(std::move(node))};
    rewriter_.set(id, rewriter_.add(std::move(result)));
  }

  /// What stands for `value` with the letters `from`, in the order `to`: one copy for all that read
  /// it so.
  ValueId transposed(ValueId value, const std::string& from, const std::string& to) {
    if (from == to) return rewriter_.map(value);
    const std::vector<int> order = permutation(from, to);
    const auto [found, is_new] = copies_.try_emplace({value, order}, -1);
    if (is_new) {
      found->second =
          rewriter_.add({.op = Op::transpose,
                         .name = rewriter_.fresh_name(graph_.at(value).name + ".transposed"),
                         .operands = {rewriter_.map(value)},
                         .attributes = {.permutation = order}});
    }
    return found->second;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<std::pair<ValueId, std::vector<int>>, ValueId> copies_;
};

}  // namespace

Graph expand_contractions(const Graph& graph) {
  const auto contracts = [](const Node& node) { return node.op == Op::contract; };
  return std::ranges::any_of(graph.nodes(), contracts) ? Expansion(graph).run() : graph;
}

}  // namespace coconet::sched
