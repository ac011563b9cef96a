// The typing rule of contract: products of two tensors whose dimensions have letters.
#include <fmt/format.h>

#include <algorithm>

#include "ir/letters.h"
#include "ir/ops/product.h"

namespace coconet::ir {

namespace {

Letters given_letters(const Graph& graph, const Node& node) {
  const std::optional<Letters> letters = parse_letters(node.attributes.letters);
  if (letters) return *letters;
  fail(graph, node,
       fmt::format("has the letters '{}'; they are one for each dimension of the operands and of "
                   "the result, as in 'bsh,hnd->bsnd'",
                   node.attributes.letters));
}

/// Each once, and one for each dimension of operand `index`.
void check_operand(const Graph& graph, const Node& node, const Letters& letters,
                   std::size_t index) {
  const Node& from = operand(graph, node, index);
  const std::string& own = letters.of(index);
  if (from.attributes.scattered) {
    fail(graph, node,
         operand_text(graph, from) +
             ", scattered over buffers, and libraries multiply what is in one: contract a copy, '" +
             from.name + " * 1'");
  }
  if (own.size() != from.shape.size()) {
    fail(graph, node,
         fmt::format("{}, but its letters '{}' are {}; each dimension has one",
                     operand_text(graph, from), own, own.size()));
  }
}

void check_letters(const Graph& graph, const Node& node, const Letters& letters) {
  for (const std::string* const one : {&letters.a, &letters.b, &letters.result}) {
    for (const char letter : *one) {
      if (std::ranges::count(*one, letter) > 1) {
        fail(graph, node,
             fmt::format("'{}' is twice in '{}'; each dimension has a letter of its own", letter,
                         *one));
      }
      const std::string all = letters.a + letters.b + letters.result;
      if (std::ranges::count(all, letter) > 1) continue;
      const bool is_of_result = one == &letters.result;
      fail(graph, node,
           fmt::format("'{}' is in '{}' alone; {}", letter, *one,
                       is_of_result ? "a letter of the result is one of an operand: expand_dims "
                                      "inserts a dimension"
                                    : "a letter is in both operands, to be contracted, or in the "
                                      "result: take the sum over that dimension first"));
    }
  }
}

}  // namespace

void infer_contract(const Graph& graph, Node& node) {
  const Letters letters = given_letters(graph, node);
  require_floats(graph, node);
  for (const std::size_t index : {0, 1}) check_operand(graph, node, letters, index);
  check_letters(graph, node, letters);
  const Node& a = operand(graph, node, 0);
  const Node& b = operand(graph, node, 1);
  Shape shape(letters.result.size());
  const auto set = [&](const Node& from, const std::string& own) {
    for (std::size_t d = 0; d < own.size(); ++d) {
      const std::size_t to = letters.result.find(own[d]);
      if (to != std::string::npos) shape[to] = from.shape[d];
    }
  };
  set(a, letters.a);
  set(b, letters.b);
  for (std::size_t d = 0; d < letters.a.size(); ++d) {
    const std::size_t other = letters.b.find(letters.a[d]);
    if (other == std::string::npos || a.shape[d] == b.shape[other]) continue;
    fail(graph, node,
         fmt::format("{} and {}; the dimensions of the letter '{}' must be the same, but are {} "
                     "and {}",
                     operand_text(graph, a), operand_text(graph, b), letters.a[d], a.shape[d].str(),
                     b.shape[other].str()));
  }
  node.attributes.letters = letters.str();
  node.weak = false;
  node.dtype = a.dtype;
  node.shape = std::move(shape);
  combine_layouts(graph, node);
}

void adjoint_contract(Adjoint& at) {
  const Letters letters = letters_in(at.node().attributes.letters);
  const Value a = at.operand(0), b = at.operand(1), g = at.whole();
  if (at.wants(0)) {
    require_alike(at, g, 1);
    at.give(0, contract(g, b, Letters{letters.result, letters.b, letters.a}.str()));
  }
  if (at.wants(1)) {
    require_alike(at, g, 0);
    at.give(1, contract(a, g, Letters{letters.a, letters.result, letters.b}.str()));
  }
}

}  // namespace coconet::ir
