// The functions that append ops to the program of their operands.
#include <fmt/format.h>

#include <initializer_list>
#include <memory>

#include "coconet/error.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "ir/composing.h"
#include "ir/graph.h"
#include "ir/lists.h"

namespace coconet {

using ir::graph_of;
using ir::narrowed;
using ir::require_given;
using ir::require_valid;
using ir::widened;

namespace {

/// Appends `op` of `operands` to `graph`, with constants for those that are numbers.
Value append_value(const std::shared_ptr<ir::Graph>& graph, ir::Op op,
                   const std::vector<Value>& operands, ir::Attributes attributes = {}) {
  ir::Node node{.op = op, .attributes = std::move(attributes)};
  for (const Value& value : operands) {
    node.operands.push_back(ir::graph_of(value) ? ir::id_of(value)
                                                : ir::constant_of(*graph, value.constant()));
  }
  return ir::value_of(graph, append(*graph, std::move(node)));
}

/// The program that the operands belong to; null when they are all constants. Throws ProgramError
/// when there are several.
std::shared_ptr<ir::Graph> common_graph(std::string_view op,
                                        std::initializer_list<Value> operands) {
  const Value* first = nullptr;
  for (const Value& value : operands) {
    require_given(value, op);
    if (!ir::graph_of(value)) continue;
    if (first == nullptr) first = &value;
    if (ir::graph_of(*first) != ir::graph_of(value)) {
      throw ProgramError(fmt::format(
          "{} combines '{}' of program '{}' with '{}' of program '{}', which is "
          "another Program; both must belong to one",
          op, first->name(), ir::graph_of(*first)->name, value.name(), ir::graph_of(value)->name));
    }
  }
  return first == nullptr ? nullptr : ir::graph_of(*first);
}

int resolve_axis(const ir::Graph& graph, std::string_view op, std::string_view axis) {
  if (axis.empty()) {
    if (graph.mesh.axes().size() == 1) return 0;
    throw ProgramError(fmt::format(
        "{} in program '{}' names no axis, but the mesh {} has several; name one of them", op,
        graph.name, graph.mesh.str()));
  }
  const int index = graph.mesh.find(axis);
  if (index >= 0) return index;
  throw ProgramError(fmt::format("{} in program '{}' works along axis '{}'; the mesh is {}", op,
                                 graph.name, axis, graph.mesh.str()));
}

Value along_axis(ir::Op op, const Value& value, std::string_view axis, ir::Attributes attributes) {
  const auto& graph = graph_of(value, to_string(op));
  attributes.axis = resolve_axis(*graph, to_string(op), axis);
  return append_value(graph, op, {value}, std::move(attributes));
}

/// `operands`, of which those that have an element for each buffer of what another one has all
/// elements of are repeated.
std::vector<Value> with_repeats(const ir::Graph& graph, std::initializer_list<Value> operands) {
  std::vector<Value> result(operands);
  const auto dim_of = [&](const Value& value) {
    const bool tensor = ir::graph_of(value) && graph.at(ir::id_of(value)).shape.size() == 1;
    return tensor ? graph.at(ir::id_of(value)).shape.front() : Dim(1);
  };
  for (Value& value : result) {
    const Dim own = dim_of(value);
    if (ir::counted_by(own).empty()) continue;
    for (const Value& other : operands) {
      const Dim elements = dim_of(other);
      if (!elements.symbolic() || ir::buffers_of(elements) != own) continue;
      value = repeat(value, elements);
      break;
    }
  }
  return result;
}

}  // namespace

Value detail::pointwise(std::string_view op, std::initializer_list<Value> operands) {
  const ir::PointwiseRow& row = *ir::find_pointwise(*ir::parse_op(op));
  const auto graph = common_graph(op, operands);
  bool constants = true;
  double numbers[3] = {0, 0, 0};
  std::size_t index = 0;
  for (const Value& value : operands) {
    if (ir::graph_of(value)) {
      const ir::Node& node = graph->at(ir::id_of(value));
      constants = constants && node.op == ir::Op::constant;
      numbers[index++] = node.attributes.number;
    } else {
      numbers[index++] = value.constant();
    }
  }
  if (constants) return row.reference(numbers[0], numbers[1], numbers[2]);
  return append_value(graph, row.op, with_repeats(*graph, operands));
}

Value select(const Value& a, const Value& b, const Value& c, DType dtype) {
  const auto graph = common_graph("select", {a, b, c});
  const auto& known = graph ? graph : graph_of(a, "select");
  return append_value(known, ir::Op::select, with_repeats(*known, {a, b, c}), {.dtype = dtype});
}

Value cast(const Value& value, DType dtype) {
  return append_value(graph_of(value, "cast"), ir::Op::cast, {value}, {.dtype = dtype});
}

Value dropout(const Value& value, double probability, std::uint64_t seed, const Value& offset) {
  common_graph("dropout", {value, offset});
  return append_value(graph_of(value, "dropout"), ir::Op::dropout, {value, offset},
                      {.probability = probability, .seed = seed});
}

Value stochastic_cast(const Value& value, DType dtype, std::uint64_t seed, const Value& offset) {
  common_graph("stochastic_cast", {value, offset});
  return append_value(graph_of(value, "stochastic_cast"), ir::Op::stochastic_cast, {value, offset},
                      {.seed = seed, .dtype = dtype});
}

Value upper_half(const Value& value) {
  return append_value(graph_of(value, "upper_half"), ir::Op::upper_half, {value});
}

Value lower_half(const Value& value) {
  return append_value(graph_of(value, "lower_half"), ir::Op::lower_half, {value});
}

Value join_halves(const Value& upper, const Value& lower) {
  return append_value(common_graph("join_halves", {upper, lower}), ir::Op::join_halves,
                      {upper, lower});
}

Value slice(const Value& value, int dim, std::string_view axis) {
  return along_axis(ir::Op::slice, value, axis, {.dim = dim});
}

Value transpose(const Value& value, const std::vector<int>& permutation) {
  return append_value(graph_of(value, "transpose"), ir::Op::transpose, {value},
                      {.permutation = permutation});
}

Value expand_dims(const Value& value, const std::vector<int>& dims) {
  return append_value(graph_of(value, "expand_dims"), ir::Op::expand_dims, {value},
                      {.inserted = dims});
}

Value window(const Value& value, int dim, std::int64_t begin, std::int64_t end, int step) {
  const auto& graph = graph_of(value, "window");
  const Shape& shape = graph->at(ir::id_of(value)).shape;
  const auto rank = static_cast<int>(shape.size());
  const bool is_known = dim >= -rank && dim < rank;
  const std::int64_t extent = is_known ? shape[dim < 0 ? dim + rank : dim].extent : 0;
  // From the end, where it goes that far; what is no index is for the rule to tell.
  const auto counted = [&](std::int64_t i) { return i < 0 && i >= -extent ? i + extent : i; };
  return append_value(graph, ir::Op::window, {value},
                      {.dim = dim, .begin = counted(begin), .end = counted(end), .step = step});
}

Value reshape(const Value& value, Shape shape) {
  return append_value(graph_of(value, "reshape"), ir::Op::reshape, {value},
                      {.shape = std::move(shape)});
}

Value pad(const Value& value, int dim, std::int64_t before, std::int64_t after) {
  return append_value(graph_of(value, "pad"), ir::Op::pad, {value},
                      {.dim = dim, .before = before, .after = after});
}

Value take(const Value& table, const Value& indices, int dim) {
  const auto& graph = graph_of(table, "take");
  common_graph("take", {table, indices});
  const auto rank = static_cast<int>(graph->at(ir::id_of(table)).shape.size());
  const int behind = rank - 1 - (dim < 0 ? dim + rank : dim);
  std::vector<int> ones;
  for (int d = 0; d < behind; ++d) ones.push_back(-1 - d);
  const bool is_tensor = ir::graph_of(indices) && !ir::is_number(indices);
  const bool is_known = dim >= -rank && dim < rank;
  return ir::whole_or_nothing(graph, [&] {
    Value aligned = indices;
    if (is_tensor && is_known) {
      const Dim extent = graph->at(ir::id_of(table)).shape[dim < 0 ? dim + rank : dim];
      aligned = ir::in_range(indices, extent);
      if (!ones.empty()) aligned = expand_dims(aligned, ones);
    }
    return append_value(graph, ir::Op::take, {table, aligned}, {.dim = dim});
  });
}

Value expand(const Value& value, const Value& like) {
  common_graph("expand", {value, like});
  const auto& graph = graph_of(like, "expand");
  const ir::Node to = graph->at(ir::id_of(like));
  if (to.weak) {
    throw ProgramError("expand is given the number '" + to.name +
                       "' for the shape of its result; it takes a tensor");
  }
  return ir::made_local(ir::made_sliced(ir::expanded(graph, value, to), to.layout), to.layout);
}

Value as_local(const Value& value, std::string_view axis) {
  return along_axis(ir::Op::as_local, value, axis, {});
}

Value stop_gradient(const Value& value) {
  return append_value(graph_of(value, "stop_gradient"), ir::Op::stop_gradient, {value});
}

Value repeat(const Value& value, const Dim& dim) {
  return append_value(graph_of(value, "repeat"), ir::Op::repeat, {value}, {.extent = dim});
}

Value update(const Value& state, const Value& value) {
  common_graph("update", {state, value});
  return append_value(graph_of(state, "update"), ir::Op::update, {state, value});
}

Value Reducer::operator()(const Value& value) const {
  graph_of(value, to_string(reduction));
  std::vector<int> dims(value.shape().size());
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int>(d);
  return (*this)(value, std::move(dims));
}

Value Reducer::operator()(const Value& value, std::vector<int> dims, bool keep_dims) const {
  const auto& graph = graph_of(value, to_string(reduction));
  const bool averages = reduction == Reduction::mean;
  if (averages && !is_float(value.dtype())) {
    throw ProgramError(fmt::format("mean of '{}', which is {}; mean takes floats: cast it first",
                                   value.name(), to_string(value.dtype())));
  }
  if (averages) require_valid(graph, [&] { return sum(value, dims, keep_dims); });
  const Value reduced = append_value(graph, ir::Op::reduction, {averages ? widened(value) : value},
                                     {.reduction = averages ? Reduction::sum : reduction,
                                      .dims = std::move(dims),
                                      .keep_dims = keep_dims});
  if (!averages) return reduced;
  std::int64_t fixed = 1;
  Value count = reduced;  // stands for "none yet"
  for (const int d : graph->at(ir::id_of(reduced)).attributes.dims) {
    const Dim& dim = value.shape()[d];
    if (!dim.symbolic()) {
      fixed *= dim.extent;
      continue;
    }
    const Value extent = append_value(graph, ir::Op::extent, {}, {.extent = dim});
    count = ir::id_of(count) == ir::id_of(reduced) ? extent : count * extent;
  }
  if (ir::id_of(count) == ir::id_of(reduced)) return narrowed(reduced / fixed, value.dtype());
  return narrowed(reduced / (fixed == 1 ? count : count * fixed), value.dtype());
}

Value Reducer::operator()(const Value& value, PerBuffer) const {
  const auto& graph = graph_of(value, to_string(reduction));
  if (reduction == Reduction::mean) {
    throw ProgramError("mean of each buffer of '" + value.name() +
                       "'; there are sum, max, min and prod of each buffer: divide a sum by the "
                       "lengths");
  }
  return append_value(graph, ir::Op::reduction, {value},
                      {.reduction = reduction, .dims = {0}, .per_buffer = true});
}

Value norm(const Value& value) {
  graph_of(value, "norm");
  return narrowed(sqrt(sum(square(widened(value)))), value.dtype());
}

Value norm(const Value& value, std::vector<int> dims, bool keep_dims) {
  require_valid(graph_of(value, "norm"), [&] { return sum(value, dims, keep_dims); });
  return narrowed(sqrt(sum(square(widened(value)), std::move(dims), keep_dims)), value.dtype());
}

Value norm(const Value& value, PerBuffer) {
  require_valid(graph_of(value, "norm"), [&] { return sum(value, per_buffer); });
  return narrowed(sqrt(sum(square(widened(value)), per_buffer)), value.dtype());
}

Value matmul(const Value& a, const Value& b, bool transpose_a, bool transpose_b) {
  common_graph("matmul", {a, b});
  graph_of(b, "matmul");
  return append_value(graph_of(a, "matmul"), ir::Op::matmul, {a, b},
                      {.transpose_a = transpose_a, .transpose_b = transpose_b});
}

Value contract(const Value& a, const Value& b, std::string_view letters) {
  common_graph("contract", {a, b});
  graph_of(b, "contract");
  return append_value(graph_of(a, "contract"), ir::Op::contract, {a, b},
                      {.letters = std::string(letters)});
}

Value all_reduce(const Value& value, Reduction reduction, std::string_view axis) {
  return along_axis(ir::Op::all_reduce, value, axis, {.reduction = reduction});
}

Value reduce_scatter(const Value& value, Reduction reduction, int dim, std::string_view axis) {
  return along_axis(ir::Op::reduce_scatter, value, axis, {.reduction = reduction, .dim = dim});
}

Value all_gather(const Value& value, std::string_view axis) {
  return along_axis(ir::Op::all_gather, value, axis, {});
}

Value reduce(const Value& value, Reduction reduction, int root, std::string_view axis) {
  return along_axis(ir::Op::reduce, value, axis, {.reduction = reduction, .root = root});
}

Value broadcast(const Value& value, int root, std::string_view axis) {
  return along_axis(ir::Op::broadcast, value, axis, {.root = root});
}

Value all_to_all(const Value& value, int dim, std::string_view axis) {
  return along_axis(ir::Op::all_to_all, value, axis, {.dim = dim});
}

Value send(const Value& value, int offset, std::string_view axis) {
  return along_axis(ir::Op::send, value, axis, {.offset = offset});
}

}  // namespace coconet
