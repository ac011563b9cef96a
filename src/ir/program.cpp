// The building API: Program and Value, and the functions that append to a program's graph.
#include "coconet/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "ir/read_file.h"

namespace coconet {

namespace {

/// The graph that the operands belong to; null when they are all constants. Throws when there are
/// several.
void require_given(const Value& value, std::string_view taker) {
  if (!value.is_empty()) return;
  throw ProgramError(fmt::format(
      "{} was given an empty Value, which was declared and has not been assigned", taker));
}

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

ir::ValueId constant_id(ir::Graph& graph, double number) {
  if (const ir::ValueId id = graph.find_constant(number); id >= 0) return id;
  ir::Node node;
  node.op = ir::Op::constant;
  node.attributes.number = number;
  return append(graph, std::move(node));
}

Value append_value(const std::shared_ptr<ir::Graph>& graph, ir::Op op,
                   const std::vector<Value>& operands, ir::Node node = {}) {
  node.op = op;
  for (const Value& value : operands) {
    node.operands.push_back(ir::graph_of(value) ? ir::id_of(value)
                                                : constant_id(*graph, value.constant()));
  }
  return ir::value_of(graph, append(*graph, std::move(node)));
}

template <class T>
[[noreturn]] void fail_inexact(T constant, double held) {
  throw ProgramError(
      fmt::format("the constant {} is no number that a double holds, as constants must be; the "
                  "nearest is {:.0f}",
                  constant, held));
}

const ir::Node& node_of(const Value& value) {
  if (value.is_empty()) throw ProgramError("an empty Value has no name, dtype, shape or layout");
  if (!ir::graph_of(value))
    throw ProgramError("a constant has no name, dtype, shape or layout of its own");
  return ir::graph_of(value)->at(ir::id_of(value));
}

/// `value` as an operand that must be a tensor of a program.
const std::shared_ptr<ir::Graph>& graph_of(const Value& value, std::string_view op) {
  require_given(value, op);
  if (!ir::graph_of(value)) {
    throw ProgramError(
        fmt::format("{} takes a tensor of a program, but its operand is the constant {:f}", op,
                    value.constant()));
  }
  return ir::graph_of(value);
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
  ir::Node node;
  node.attributes = std::move(attributes);
  return append_value(graph, op, {value}, std::move(node));
}

}  // namespace

std::string_view to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::mean:
      return "mean";
    case Reduction::max:
      return "max";
    case Reduction::min:
      return "min";
    case Reduction::prod:
      return "prod";
  }
  return "";
}

// ---- Value

// What is rounded up to 2^63 or 2^64 cannot be converted back.
void Value::require_exact(std::int64_t constant) {
  const auto held = static_cast<double>(constant);
  if (held >= 0x1p63 || static_cast<std::int64_t>(held) != constant) fail_inexact(constant, held);
}
void Value::require_exact(std::uint64_t constant) {
  const auto held = static_cast<double>(constant);
  if (held >= 0x1p64 || static_cast<std::uint64_t>(held) != constant) fail_inexact(constant, held);
}

Value Value::named(std::string name) const {
  const ir::Node& node = node_of(*this);
  if (name.empty()) throw ProgramError("'" + node.name + "' cannot be given an empty name");
  if (name != node.name && !graph_->name_free(name)) {
    throw ProgramError("'" + node.name + "' cannot be named '" + name + "': program '" +
                       graph_->name + "' has a value or an output of that name");
  }
  graph_->rename(id_, std::move(name));  // the one change that a graph under construction allows
  graph_->edit(id_).user_named = true;
  return *this;
}

const std::string& Value::name() const {
  return node_of(*this).name;
}
DType Value::dtype() const {
  return node_of(*this).dtype;
}
const Shape& Value::shape() const {
  return node_of(*this).shape;
}
const std::vector<Placement>& Value::layout() const {
  return node_of(*this).layout;
}

// ---- Program

Program::Program(std::string name, Mesh mesh) : graph_(std::make_shared<ir::Graph>()) {
  if (name.empty()) throw ProgramError("a program needs a name");
  graph_->name = std::move(name);
  graph_->mesh = std::move(mesh);
}

Program Program::parse(std::string_view json, int ranks) {
  return Program(std::make_shared<ir::Graph>(ir::from_json(json, ranks)));
}

Program Program::load(const std::filesystem::path& file, int ranks) {
  const ir::FileText read = ir::read_file(file);
  if (read.is_missing) throw ProgramError("there is no program file '" + file.string() + "'");
  if (!read.bytes) {
    throw ProgramError(
        fmt::format("cannot read the program file '{}': {}", file.string(), read.problem));
  }
  try {
    return parse(*read.bytes, ranks);
  } catch (const ProgramError& error) {
    throw ProgramError(file.string() + ": " + error.what());
  }
}

Dim Program::dim(std::string name, std::int64_t default_extent) {
  if (name.empty())
    throw ProgramError("a symbolic dimension of program '" + graph_->name + "' needs a name");
  if (default_extent < 0) {
    throw ProgramError(fmt::format(
        "dimension '{}' has default {}; it must be positive, or 0 for none", name, default_extent));
  }
  Dim dim(std::move(name), default_extent);
  if (!ir::counted_by(dim).empty()) {
    throw ProgramError("a dimension cannot be called '" + dim.name +
                       "', which is how that of the buffers of another one is called");
  }
  for (const Dim& known : graph_->dims) {
    if (known == dim)
      throw ProgramError("program '" + graph_->name + "' has a dimension '" + dim.name +
                         "' already");
  }
  graph_->dims.push_back(dim);
  return dim;
}

namespace {

Value add_tensor(const std::shared_ptr<ir::Graph>& graph, ir::Op op, std::string name, DType dtype,
                 Shape shape, const Layout& layout, bool scattered = false) {
  if (name.empty())
    throw ProgramError(fmt::format("{}{}{}' needs a name",
                                   (op == ir::Op::input ? "an input" : "a state"), " of program '",
                                   graph->name));
  ir::Node node;
  node.name = std::move(name);
  node.user_named = true;
  node.dtype = dtype;
  node.shape = std::move(shape);
  node.layout = layout.resolve(graph->mesh);
  node.attributes.scattered = scattered;
  return append_value(graph, op, {}, std::move(node));
}

}  // namespace

Value Program::input(std::string name, DType dtype, Shape shape, Layout layout) {
  return add_tensor(graph_, ir::Op::input, std::move(name), dtype, std::move(shape), layout);
}

Value Program::state(std::string name, DType dtype, Shape shape, Layout layout) {
  return add_tensor(graph_, ir::Op::state, std::move(name), dtype, std::move(shape), layout);
}

Value Program::scattered_input(std::string name, DType dtype, const Dim& dim,
                               const Layout& layout) {
  return add_tensor(graph_, ir::Op::input, std::move(name), dtype, {dim}, layout, true);
}

Value Program::scattered_state(std::string name, DType dtype, const Dim& dim,
                               const Layout& layout) {
  return add_tensor(graph_, ir::Op::state, std::move(name), dtype, {dim}, layout, true);
}

Dim Program::buffers(const Dim& dim) const {
  if (std::ranges::find(graph_->dims, dim) == graph_->dims.end()) {
    throw ProgramError("program '" + graph_->name + "' has no dimension '" + dim.str() +
                       "' whose buffers it could count; make it with Program::dim");
  }
  return ir::buffers_of(dim);
}

Value Program::scalar(std::string name) {
  if (name.empty()) throw ProgramError("a scalar of program '" + graph_->name + "' needs a name");
  ir::Node node;
  node.name = std::move(name);
  node.user_named = true;
  return append_value(graph_, ir::Op::scalar, {}, std::move(node));
}

void Program::output(std::string name, const Value& value) {
  const ir::Node& node = node_of(value);
  const std::string what = "output '" + name + "' of program '" + graph_->name + "'";
  if (name.empty()) throw ProgramError("an output of program '" + graph_->name + "' needs a name");
  if (ir::graph_of(value) != graph_) throw ProgramError(what + " is a value of another program");
  if (node.weak) throw ProgramError(what + " is a number; outputs are tensors");
  for (const ir::Output& output : graph_->outputs()) {
    if (output.name == name) throw ProgramError(what + " exists already");
  }
  const ir::ValueId same = graph_->find(name);
  if (same >= 0 && same != ir::id_of(value)) {
    throw ProgramError(what + " has the name of another value; choose one of its own");
  }
  if (node.op == ir::Op::input || node.op == ir::Op::state || node.op == ir::Op::update) {
    throw ProgramError(fmt::format("{} is the {} '{}', which has a buffer already; read that one",
                                   what, to_string(node.op), node.name));
  }
  graph_->add_output({std::move(name), ir::id_of(value)});
}

const std::string& Program::name() const {
  return graph_->name;
}
const Mesh& Program::mesh() const {
  return graph_->mesh;
}
std::string Program::str() const {
  return ir::print(*graph_);
}
std::string Program::json() const {
  return ir::to_json(*graph_);
}

// ---- ops

namespace {

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
  ir::Node node;
  node.attributes.dtype = dtype;
  const auto& known = graph ? graph : graph_of(a, "select");
  return append_value(known, ir::Op::select, with_repeats(*known, {a, b, c}), std::move(node));
}

Value cast(const Value& value, DType dtype) {
  const auto& graph = graph_of(value, "cast");
  ir::Node node;
  node.dtype = dtype;
  return append_value(graph, ir::Op::cast, {value}, std::move(node));
}

Value dropout(const Value& value, double probability, std::uint64_t seed, const Value& offset) {
  common_graph("dropout", {value, offset});
  ir::Node node;
  node.attributes.probability = probability;
  node.attributes.seed = seed;
  return append_value(graph_of(value, "dropout"), ir::Op::dropout, {value, offset},
                      std::move(node));
}

Value stochastic_cast(const Value& value, DType dtype, std::uint64_t seed, const Value& offset) {
  common_graph("stochastic_cast", {value, offset});
  ir::Node node;
  node.dtype = dtype;
  node.attributes.seed = seed;
  return append_value(graph_of(value, "stochastic_cast"), ir::Op::stochastic_cast, {value, offset},
                      std::move(node));
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
  ir::Attributes attributes;
  attributes.dim = dim;
  return along_axis(ir::Op::slice, value, axis, attributes);
}

Value repeat(const Value& value, const Dim& dim) {
  const auto& graph = graph_of(value, "repeat");
  ir::Node node;
  node.attributes.extent = dim;
  return append_value(graph, ir::Op::repeat, {value}, std::move(node));
}

Value update(const Value& state, const Value& value) {
  common_graph("update", {state, value});
  return append_value(graph_of(state, "update"), ir::Op::update, {state, value});
}

namespace {

/// Throws what `build` does of the user's own tensors, before any is cast; the program stays as it
/// was.
template <class Build>
void require_valid(const std::shared_ptr<ir::Graph>& graph, Build build) {
  const ir::ValueId before = graph->size();
  (void)build();
  graph->drop_from(before);
}

/// 16-bit floats as f32, in which what is composed of several ops is computed; others as they are.
Value widened(const Value& value) {
  return ir::graph_of(value) && is_16_bit(value.dtype()) ? cast(value, f32) : value;
}

/// `result` in the dtype of `like`: rounded once, where that has 16 bits.
Value narrowed(const Value& result, const Value& like) {
  return is_16_bit(like.dtype()) ? cast(result, like.dtype()) : result;
}

}  // namespace

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
  ir::Node node;
  node.attributes.reduction = averages ? Reduction::sum : reduction;
  node.attributes.dims = std::move(dims);
  node.attributes.keep_dims = keep_dims;
  const Value reduced =
      append_value(graph, ir::Op::reduction, {averages ? widened(value) : value}, std::move(node));
  if (!averages) return reduced;
  std::int64_t fixed = 1;
  Value count = reduced;  // stands for "none yet"
  for (const int d : graph->at(ir::id_of(reduced)).attributes.dims) {
    const Dim& dim = value.shape()[d];
    if (!dim.symbolic()) {
      fixed *= dim.extent;
      continue;
    }
    ir::Node extent_node;
    extent_node.attributes.extent = dim;
    const Value extent = append_value(graph, ir::Op::extent, {}, std::move(extent_node));
    count = ir::id_of(count) == ir::id_of(reduced) ? extent : count * extent;
  }
  if (ir::id_of(count) == ir::id_of(reduced)) return narrowed(reduced / fixed, value);
  return narrowed(reduced / (fixed == 1 ? count : count * fixed), value);
}

Value Reducer::operator()(const Value& value, PerBuffer) const {
  const auto& graph = graph_of(value, to_string(reduction));
  if (reduction == Reduction::mean) {
    throw ProgramError("mean of each buffer of '" + value.name() +
                       "'; there are sum, max, min and prod of each buffer: divide a sum by the "
                       "lengths");
  }
  ir::Node node;
  node.attributes.reduction = reduction;
  node.attributes.dims = {0};
  node.attributes.per_buffer = true;
  return append_value(graph, ir::Op::reduction, {value}, std::move(node));
}

Value norm(const Value& value) {
  graph_of(value, "norm");
  return narrowed(sqrt(sum(square(widened(value)))), value);
}

Value norm(const Value& value, std::vector<int> dims, bool keep_dims) {
  require_valid(graph_of(value, "norm"), [&] { return sum(value, dims, keep_dims); });
  return narrowed(sqrt(sum(square(widened(value)), std::move(dims), keep_dims)), value);
}

Value norm(const Value& value, PerBuffer) {
  require_valid(graph_of(value, "norm"), [&] { return sum(value, per_buffer); });
  return narrowed(sqrt(sum(square(widened(value)), per_buffer)), value);
}

namespace {

/// Widened, with mean 0 and variance 1 over `dim`.
Value standardised(const Value& value, int dim, double epsilon) {
  require_valid(graph_of(value, "layer_norm"), [&] { return sum(value, {dim}); });
  const Value x = widened(value);
  const Value centred = x - mean(x, {dim}, true);
  return centred * rsqrt(mean(square(centred), {dim}, true) + epsilon);
}

}  // namespace

Value softmax(const Value& value, int dim) {
  require_valid(graph_of(value, "softmax"), [&] { return max(value, {dim}); });
  const Value x = widened(value);
  const Value exponential = exp(x - max(x, {dim}, true));
  return narrowed(exponential / sum(exponential, {dim}, true), value);
}

Value layer_norm(const Value& value, int dim, double epsilon) {
  return narrowed(standardised(value, dim, epsilon), value);
}

Value layer_norm(const Value& value, const Value& gamma, const Value& beta, int dim,
                 double epsilon) {
  const auto& graph = graph_of(value, "layer_norm");
  for (const Value& scale : {gamma, beta}) {
    if (is_16_bit(value.dtype()) && ir::graph_of(scale) && scale.dtype() == value.dtype())
      require_valid(graph, [&] { return value * scale; });
  }
  const Value x = standardised(value, dim, epsilon);
  return narrowed(x * widened(gamma) + widened(beta), value);
}

Value matmul(const Value& a, const Value& b, bool transpose_a, bool transpose_b) {
  common_graph("matmul", {a, b});
  ir::Node node;
  node.attributes.transpose_a = transpose_a;
  node.attributes.transpose_b = transpose_b;
  graph_of(b, "matmul");
  return append_value(graph_of(a, "matmul"), ir::Op::matmul, {a, b}, std::move(node));
}

Value all_reduce(const Value& value, Reduction reduction, std::string_view axis) {
  ir::Attributes attributes;
  attributes.reduction = reduction;
  return along_axis(ir::Op::all_reduce, value, axis, attributes);
}

Value reduce_scatter(const Value& value, Reduction reduction, int dim, std::string_view axis) {
  ir::Attributes attributes;
  attributes.reduction = reduction;
  attributes.dim = dim;
  return along_axis(ir::Op::reduce_scatter, value, axis, attributes);
}

Value all_gather(const Value& value, std::string_view axis) {
  return along_axis(ir::Op::all_gather, value, axis, {});
}

Value reduce(const Value& value, Reduction reduction, int root, std::string_view axis) {
  ir::Attributes attributes;
  attributes.reduction = reduction;
  attributes.root = root;
  return along_axis(ir::Op::reduce, value, axis, attributes);
}

Value broadcast(const Value& value, int root, std::string_view axis) {
  ir::Attributes attributes;
  attributes.root = root;
  return along_axis(ir::Op::broadcast, value, axis, attributes);
}

Value all_to_all(const Value& value, int dim, std::string_view axis) {
  ir::Attributes attributes;
  attributes.dim = dim;
  return along_axis(ir::Op::all_to_all, value, axis, attributes);
}

Value send(const Value& value, int offset, std::string_view axis) {
  ir::Attributes attributes;
  attributes.offset = offset;
  return along_axis(ir::Op::send, value, axis, attributes);
}

}  // namespace coconet
