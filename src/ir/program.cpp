// The building API: Program and Value.
#include "coconet/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "ir/read_file.h"

namespace coconet {

namespace {

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

}  // namespace

std::string_view to_string(Reduction reduction) {
  constexpr std::string_view names[] = {"sum", "mean", "max", "min", "prod"};
  return names[static_cast<std::size_t>(reduction)];
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
  name.insert(0, graph_->scope);
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
  return ir::parse_file<ProgramError>(file, read, "program",
                                      [&](const std::string& text) { return parse(text, ranks); });
}

namespace {

void set_scope(ir::Graph& graph) {
  graph.scope.clear();
  for (const auto& [number, name] : graph.scopes) graph.scope += name + ".";
}

}  // namespace

Scope Program::scope(const std::string& name) {
  if (name.empty()) throw ProgramError("a scope of program '" + graph_->name + "' needs a name");
  const int number = graph_->scopes.empty() ? 0 : graph_->scopes.back().first + 1;
  graph_->scopes.emplace_back(number, name);
  set_scope(*graph_);
  return {graph_, number};
}

Scope::~Scope() {
  if (graph_ == nullptr) return;
  std::erase_if(graph_->scopes, [&](const auto& scope) { return scope.first == number_; });
  set_scope(*graph_);
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
  name.insert(0, graph->scope);
  return ir::value_of(graph, append(*graph, {.op = op,
                                             .name = std::move(name),
                                             .user_named = true,
                                             .attributes = {.scattered = scattered},
                                             .dtype = dtype,
                                             .shape = std::move(shape),
                                             .layout = layout.resolve(graph->mesh)}));
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

void Program::may_slice(const std::vector<std::string>& states, bool may) {
  for (const std::string& name : states) {
    ir::Node& node = graph_->edit(graph_->require(name));
    const bool is_replicated =
        std::ranges::find(node.layout, Placement(replicated)) != node.layout.end();
    if (node.op != ir::Op::state || !is_replicated) {
      throw ProgramError(
          fmt::format("'{}' of program '{}' cannot be kept sliced: it is no replicated state", name,
                      graph_->name));
    }
    node.attributes.may_slice = may;
  }
}

Dim Program::buffers(const Dim& dim) const {
  if (std::ranges::find(graph_->dims, dim) == graph_->dims.end()) {
    throw ProgramError("program '" + graph_->name + "' has no dimension '" + dim.str() +
                       "' whose buffers it could count; make it with Program::dim");
  }
  return ir::buffers_of(dim);
}

Value Program::iota(const Shape& shape, DType dtype) {
  return ir::value_of(graph_, append(*graph_, {.op = ir::Op::iota,
                                               .attributes = {.shape = shape, .dtype = dtype}}));
}

Value Program::scalar(std::string name) {
  if (name.empty()) throw ProgramError("a scalar of program '" + graph_->name + "' needs a name");
  return ir::value_of(
      graph_,
      append(*graph_, {.op = ir::Op::scalar, .name = graph_->scope + name, .user_named = true}));
}

void Program::output(std::string name, const Value& value) {
  const ir::Node& node = node_of(value);
  if (!name.empty()) name.insert(0, graph_->scope);
  const std::string what = "output '" + name + "' of program '" + graph_->name + "'";
  if (name.empty()) throw ProgramError("an output of program '" + graph_->name + "' needs a name");
  if (ir::graph_of(value) != graph_) throw ProgramError(what + " is a value of another program");
  if (node.weak) throw ProgramError(what + " is a number; outputs are tensors");
  if (graph_->find_output(name) >= 0) throw ProgramError(what + " exists already");
  const ir::ValueId same = graph_->find(name);
  if (same >= 0 && same != ir::id_of(value)) {
    throw ProgramError(what + " has the name of another value; choose one of its own");
  }
  if (ir::states_type(node.op) || node.op == ir::Op::update) {
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

}  // namespace coconet
