// The typing rule of take: what a tensor has at numbers along a dimension. The numbers have the
// dimensions that the result has in its place, and those of extent 1 for each behind it.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "coconet/functions.h"
#include "ir/ops/product.h"

namespace coconet::ir {

namespace {

/// How many dimensions of the numbers the result has in place of the one that is looked up.
std::size_t counted_dims(const Node& table, const Node& numbers, int dim) {
  return numbers.shape.size() + static_cast<std::size_t>(dim) + 1 - table.shape.size();
}

/// `numbers` as the application knows them.
std::string numbers_text(const Graph& graph, const Node& numbers) {
  const Node* given = &numbers;
  while (given->op == Op::expand_dims || given->op == Op::in_range)
    given = &operand(graph, *given, 0);
  return operand_text(graph, *given);
}

void check_numbers(const Graph& graph, const Node& node, const Node& table, const Node& numbers) {
  if (numbers.weak || numbers.attributes.scattered ||
      (numbers.dtype != DType::i32 && numbers.dtype != DType::i64)) {
    fail(graph, node,
         numbers_text(graph, numbers) +
             "; the indices are a tensor of i32 or i64, not scattered over buffers");
  }
  const std::size_t behind = table.shape.size() - static_cast<std::size_t>(node.attributes.dim) - 1;
  const bool fits = numbers.shape.size() >= behind &&
                    std::all_of(numbers.shape.end() - static_cast<std::ptrdiff_t>(behind),
                                numbers.shape.end(), [](const Dim& dim) { return dim == Dim(1); });
  if (!fits) {
    fail(
        graph, node,
        fmt::format("{} and {}; the indices end in a dimension of extent 1 for each behind "
                    "dimension {}",
                    operand_text(graph, table), numbers_text(graph, numbers), node.attributes.dim));
  }
  for (std::size_t axis = 0; axis < table.layout.size(); ++axis) {
    if (table.layout[axis] != sliced(node.attributes.dim) || numbers.layout[axis] == replicated)
      continue;
    fail(graph, node,
         fmt::format("along axis '{}' {} and {}; each rank would look in its slice for indices of "
                     "its own: all_gather one of them",
                     graph.mesh.axes()[axis].name, operand_text(graph, table),
                     numbers_text(graph, numbers)));
  }
}

}  // namespace

void infer_take(const Graph& graph, Node& node) {
  const Node& table = operand(graph, node, 0);
  const Node& numbers = operand(graph, node, 1);
  require_dim(graph, node, table, "looks along");
  const int dim = node.attributes.dim;
  check_numbers(graph, node, table, numbers);
  const auto place = table.shape.begin() + dim;
  Shape shape(table.shape.begin(), place);
  shape.insert(
      shape.end(), numbers.shape.begin(),
      numbers.shape.begin() + static_cast<std::ptrdiff_t>(counted_dims(table, numbers, dim)));
  shape.insert(shape.end(), place + 1, table.shape.end());
  take_type(node, table);
  node.shape = std::move(shape);
  combine_layouts(graph, node);
}

// What a number is taken for is added up by a product with ones and zeros: in one order, whatever
// the schedule.
void adjoint_take(Adjoint& at) {
  if (!at.wants(0)) return;
  const int dim = at.node().attributes.dim;
  const Value table = at.operand(0), gradient = at.whole();
  // As the application gave them, so that no other dimensions of them are stored for both passes.
  Value numbers = at.operand(1);
  const Node given = graph_of(table)->at(id_of(numbers));
  if (given.op == Op::expand_dims) numbers = value_of(graph_of(table), given.operands.front());
  for (const std::size_t index : {0, 1}) require_alike(at, gradient, index);
  const Dim rows = table.shape()[dim];
  const std::size_t behind = table.shape().size() - static_cast<std::size_t>(dim) - 1;
  const std::size_t counted = at.operand(1).shape().size() - behind;
  Shape places = at.operand(1).shape();
  places.resize(counted);
  places.emplace_back(1);
  numbers = reshape(numbers, places);
  const Value all = program_of(graph_of(table)).iota({rows}, numbers.dtype());
  const Value last = rows.symbolic() ? max(all) : Value(rows.extent - 1);
  const Value nearest = clip(numbers, 0, last);
  Value ones = select(equal(nearest, all), 1, 0, table.dtype());
  Placements layout = ones.layout();
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (table.layout()[axis] == sliced(dim)) layout[axis] = sliced(static_cast<int>(counted));
  }
  ones = made_sliced(ones, layout);
  // Letters of what is in front, of the places, of the rows, and of what is behind.
  std::string letters;
  for (std::size_t i = 0; i < gradient.shape().size() + 1; ++i)
    letters += static_cast<char>('a' + i);
  const std::string front = letters.substr(0, static_cast<std::size_t>(dim));
  const std::string taken = letters.substr(front.size(), counted);
  const std::string row = letters.substr(front.size() + counted, 1);
  const std::string back = letters.substr(front.size() + counted + 1);
  at.give(0, contract(ones, gradient,
                      taken + row + "," + front + taken + back + "->" + front + row + back));
}

}  // namespace coconet::ir
