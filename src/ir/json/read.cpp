// Reads a program from JSON. Every value goes through `append`, so what is read is checked like
// what is built.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <numeric>
#include <set>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/collective_halves.h"
#include "ir/custom_op.h"
#include "ir/graph.h"
#include "ir/json/element.h"
#include "ir/json/mesh.h"
#include "ir/knobs.h"
#include "ir/lists.h"

namespace coconet::ir {

namespace {

constexpr Reduction all_reductions[] = {Reduction::sum, Reduction::mean, Reduction::max,
                                        Reduction::min, Reduction::prod};

// Runs `body`; a rule that it breaks is reported at `where`.
template <class Body>
auto located(const JsonElement& where, const Body& body) {
  try {
    return body();
  } catch (const ProgramError& error) {
    where.fail(error.what());
  }
}

DType read_dtype(const JsonElement& element) {
  return element.one_of("dtype", element.string(), all_dtypes);
}

Op read_op(const JsonElement& element) {
  const std::string text = element.string();
  if (const auto op = parse_op(text)) return *op;
  std::vector<std::string> known;
#define COCONET_STRUCTURAL(name, ...) known.emplace_back(#name);
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
  for (const PointwiseRow& row : pointwise_table()) known.emplace_back(row.name);
  for (const std::string& name : custom_names()) known.push_back(name);
  const std::string near = nearest(text, known);
  element.fail(fmt::format(
      "unknown op '{}'; {} it is an op of an application's own, the program that reads this must "
      "define it first, with define_pointwise of coconet/custom_op.h, as device text never comes "
      "from a file",
      text, near.empty() ? "if" : "did you mean '" + near + "'? If"));
}

double read_constant(const JsonElement& element) {
  if (element.is_number()) return element.number();
  const std::string text = element.is_string() ? element.string() : "";
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  element.wrong_type("a number, \"inf\", \"-inf\" or \"nan\"");
}

Placement read_placement(const JsonElement& element) {
  const std::string text = element.string();
  if (text == "replicated") return replicated;
  if (text == "local") return local;
  constexpr std::string_view prefix = "sliced(";
  if (text.starts_with(prefix) && text.ends_with(")")) {
    const char* const last = text.data() + text.size() - 1;
    int dim = 0;
    const auto [end, error] = std::from_chars(text.data() + prefix.size(), last, dim);
    if (error == std::errc() && end == last && dim >= 0) return sliced(dim);
  }
  element.fail("'" + text +
               "' is no placement; it must be \"replicated\", \"local\" or \"sliced(DIM)\"");
}

Placements read_layout(const JsonElement& element, const Mesh& mesh) {
  if (element.is_string()) {
    const Placement everywhere = read_placement(element);
    return located(element, [&] { return Layout(everywhere).resolve(mesh); });
  }
  if (!element.is_object()) element.wrong_type("a placement, or an object with one per mesh axis");
  std::vector<std::pair<std::string, Placement>> axes;
  for (const auto& [axis, placement] : element.members())
    axes.emplace_back(axis, read_placement(placement));
  return located(element, [&] { return Layout::on(axes).resolve(mesh); });
}

Knobs read_knobs(const JsonElement& element) {
  std::vector<std::string_view> keys;
  for (const KnobRow& row : knob_table()) keys.push_back(row.name);
  element.require_object(keys);
  Knobs knobs;
  for (const KnobRow& row : knob_table()) {
    const auto knob = element.find(row.name);
    if (!knob) continue;
    if (row.text != nullptr) {
      knobs.*row.text = knob->name();
    } else {
      knobs.*row.number = knob->small_integer(1);
    }
  }
  return knobs;
}

class Reader {
 public:
  Reader(const JsonElement& root, int ranks) : root_(root), ranks_(ranks) {}

  Graph read() {
    if (!root_.is_object()) root_.wrong_type("an object");
    root_.require_version("coconet_program", program_json_version);
    root_.require_object(
        {"coconet_program", "name", "mesh", "dims", "values", "outputs", "kernels"});
    graph_->name = root_.at("name").name();
    graph_->mesh = read_mesh(root_.at("mesh"), ranks_);
    if (const auto dims = root_.find("dims")) read_dims(*dims);
    const auto values = root_.at("values").elements();
    collect_names(values);
    for (const JsonElement& value : values) read_value(value);
    if (const auto outputs = root_.find("outputs")) read_outputs(*outputs);
    if (const auto kernels = root_.find("kernels")) {
      for (const JsonElement& kernel : kernels->elements()) read_kernel(kernel);
    }
    return std::move(*graph_);
  }

 private:
  void read_dims(const JsonElement& dims) {
    for (const JsonElement& dim : dims.elements()) {
      dim.require_object({"name", "default"});
      const auto fallback = dim.find("default");
      const std::int64_t extent = fallback ? fallback->integer(1) : 0;
      located(dim, [&] { return program_of(graph_).dim(dim.at("name").name(), extent); });
    }
  }

  void collect_names(const std::vector<JsonElement>& values) {
    for (const JsonElement& value : values) {
      if (!value.is_object()) continue;
      if (const auto name = value.find("name"); name && name->is_string())
        names_.insert(name->string());
    }
  }

  void read_value(const JsonElement& value) {
    if (!value.is_object()) value.wrong_type("an object");
    Node node;
    node.op = read_op(value.at("op"));
    std::vector<std::string_view> keys = {"name", "named", "origin", "op", "operands"};
    if (states_type(node.op)) keys.insert(keys.end(), {"dtype", "shape", "layout"});
    for (const std::string_view key : attribute_keys(node.op)) keys.push_back(key);
    value.require_object(keys);
    if (const auto name = is_given(node.op) ? value.at("name") : value.find("name")) {
      node.name = name->name();
      const auto named = value.find("named");
      node.user_named = named ? named->boolean() : true;
    }
    if (const auto origin = value.find("origin")) node.origin = origin->string();
    read_operands(value, node);
    read_attributes(value, node);
    located(value, [&] { return append(*graph_, std::move(node)); });
  }

  void read_operands(const JsonElement& value, Node& node) {
    const auto operands = arity(node.op) > 0 ? value.at("operands") : value.find("operands");
    if (!operands) return;
    const auto elements = operands->elements();
    if (static_cast<int>(elements.size()) != arity(node.op)) {
      operands->fail(fmt::format("'{}' takes {} operand{}, not {}", to_string(node.op),
                                 arity(node.op), arity(node.op) == 1 ? "" : "s", elements.size()));
    }
    for (const JsonElement& element : elements) {
      node.operands.push_back(element.is_number() ? constant(element.number())
                                                  : find_value(element));
    }
  }

  ValueId find_value(const JsonElement& element) const {
    if (!element.is_string()) element.wrong_type("the name of a value or a number");
    const std::string name = element.string();
    const ValueId id = graph_->find(name);
    if (id >= 0) return id;
    if (names_.contains(name))
      element.fail("value '" + name + "' comes later; values are listed before their readers");
    std::vector<std::string> known;
    for (const Node& node : graph_->nodes()) {
      if (node.op != Op::constant) known.push_back(node.name);
    }
    element.unknown("value", name, known);
  }

  // The constant of a number among operands; equal numbers share one, as when a program is built in
  // C++.
  ValueId constant(double number) {
    if (const ValueId known = graph_->find_constant(number); known >= 0) return known;
    Node node{.op = Op::constant, .attributes = {.number = number}};
    int suffix = graph_->size();
    do {
      node.name = fmt::format("constant_{}", suffix++);
    } while (names_.contains(node.name) || !graph_->name_free(node.name));
    return append(*graph_, std::move(node));
  }

  void read_attributes(const JsonElement& value, Node& node) const {
    if (states_type(node.op)) {
      node.dtype = read_dtype(value.at("dtype"));
      node.shape = read_shape(value.at("shape"));
      node.layout = read_layout(value.at("layout"), graph_->mesh);
    }
    for_each_attribute(node.op, node.attributes,
                       [&](std::string_view key, auto kind, auto& attribute) {
                         read(kind, {value, key, node}, attribute);
                       });
  }

  /// Where the attribute of a value is read from.
  struct Place {
    const JsonElement& value;
    std::string_view key;
    const Node& node;
    [[nodiscard]] JsonElement required() const { return value.at(key); }
    [[nodiscard]] std::optional<JsonElement> given() const { return value.find(key); }
  };

  void read(attribute::real, const Place& place, double& number) const {
    number =
        place.node.op == Op::constant ? read_constant(place.required()) : place.required().number();
  }

  void read(attribute::seed, const Place& place, std::uint64_t& seed) const {
    seed = place.required().unsigned_integer();
  }

  void read(attribute::integer, const Place& place, int& number) const {
    if (const auto given = place.given())
      number = given->small_integer(std::numeric_limits<int>::min());
  }

  void read(attribute::index, const Place& place, int& index) const {
    if (const auto given = place.given()) index = given->small_integer(0);
  }

  void read(attribute::place, const Place& place, std::int64_t& index) const {
    if (const auto given = place.given()) index = given->integer(0);
  }

  void read(attribute::exception, const Place& place, std::optional<std::int64_t>& number) const {
    if (const auto given = place.given())
      number = given->integer(std::numeric_limits<std::int64_t>::min());
  }

  void read(attribute::flag, const Place& place, bool& flag) const {
    if (const auto given = place.given()) flag = given->boolean();
  }

  void read(attribute::reduction, const Place& place, Reduction& reduction) const {
    reduction = place.required().one_of("reduction", place.required().string(), all_reductions);
    if (place.node.op == Op::reduction && reduction == Reduction::mean) {
      place.required().fail(
          "a mean over dimensions is written as a sum and a division by their extents");
    }
  }

  void read(attribute::letters, const Place& place, std::string& letters) const {
    letters = place.required().string();
  }

  void read(attribute::extent, const Place& place, Dim& dim) const {
    dim = read_dim(place.required());
  }

  void read(attribute::shape, const Place& place, Shape& shape) const {
    shape = read_shape(place.required());
  }

  void read(attribute::dtype, const Place& place, std::optional<DType>& dtype) const {
    const bool is_open = is_pointwise(place.node.op) || place.node.op == Op::expand;
    if (is_open && !place.given()) return;
    dtype = read_dtype(place.required());
  }

  void read(attribute::mesh_axis, const Place& place, int& axis) const {
    if (graph_->mesh.axes().size() == 1 && !place.given()) return;
    const JsonElement element = place.required();
    const std::string name = element.string();
    axis = graph_->mesh.find(name);
    if (axis >= 0) return;
    std::vector<std::string> known;
    for (const Mesh::Axis& other : graph_->mesh.axes()) known.push_back(other.name);
    element.unknown("mesh axis", name, known);
  }

  template <class List>
  void read(List /*kind*/, const Place& place, std::vector<int>& list) const {
    for (const JsonElement& number : place.required().elements())
      list.push_back(number.small_integer(std::numeric_limits<int>::min()));
  }

  void read(attribute::dimensions, const Place& place, std::vector<int>& dims) const {
    if (place.given()) return read<attribute::dimensions>({}, place, dims);
    dims.resize(graph_->at(place.node.operands.front()).shape.size());
    std::iota(dims.begin(), dims.end(), 0);
  }

  Shape read_shape(const JsonElement& element) const {
    Shape shape;
    for (const JsonElement& dim : element.elements()) shape.push_back(read_dim(dim));
    return shape;
  }

  Dim read_dim(const JsonElement& element) const {
    if (element.is_number()) return element.integer(1);
    if (!element.is_string()) element.wrong_type("the name of a dimension or a whole number");
    const std::string name = element.string();
    std::vector<std::string> known;
    for (const Dim& dim : graph_->dims) {
      if (dim.name == name) return dim;
      if (buffers_of(dim).name == name) return buffers_of(dim);
      known.push_back(dim.name);
    }
    element.unknown("dimension", name, known);
  }

  void read_outputs(const JsonElement& outputs) {
    for (const JsonElement& output : outputs.elements()) {
      output.require_object({"name", "value"});
      const std::string name = output.at("name").name();
      const Value value = value_of(graph_, find_value(output.at("value")));
      located(output, [&] { program_of(graph_).output(name, value); });
    }
  }

  void read_kernel(const JsonElement& kernel) {
    kernel.require_object({"name", "kind", "members", "knobs", "arriving"});
    Fusion fusion;
    fusion.name = kernel.at("name").name();
    for (const Fusion& other : graph_->fusions()) {
      if (other.name == fusion.name)
        kernel.at("name").fail("there are two kernels called '" + fusion.name + "'");
    }
    const JsonElement members = kernel.at("members");
    for (const JsonElement& member : members.elements()) {
      const ValueId id = find_value(member);
      const Fusion* const other = graph_->fusion_of(id);
      const bool twice = std::ranges::find(fusion.members, id) != fusion.members.end();
      if (twice || other != nullptr) {
        member.fail("'" + graph_->at(id).name + "' is a member of kernel '" +
                    (twice ? fusion : *other).name + "' already");
      }
      fusion.members.push_back(id);
    }
    if (fusion.members.empty()) members.fail("is empty; a kernel computes at least one value");
    std::ranges::sort(fusion.members);
    if (const auto kind = kernel.find("kind")) check_kind(*kind, fusion.members);
    if (const auto knobs = kernel.find("knobs")) fusion.knobs = read_knobs(*knobs);
    if (const auto arriving = kernel.find("arriving")) {
      for (const JsonElement& value : arriving->elements())
        fusion.arriving.push_back(find_value(value));
      std::ranges::sort(fusion.arriving);
    }
    graph_->add_fusion(std::move(fusion));
  }

  void check_kind(const JsonElement& element, const std::vector<ValueId>& members) const {
    const std::string text = element.string();
    const Fusion::Kind kind = element.one_of("kind of kernel", text, fusion_kinds);
    if (kind != halves_of(*graph_, members).kind)
      element.fail(fmt::format("is '{}', but {}", text, kind_reason(*graph_, members)));
  }

  const JsonElement root_;
  const int ranks_;  ///< of the mesh; 0: not known
  const std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::set<std::string> names_;  ///< of all values in the file, also those not read yet
};

}  // namespace

Graph from_json(std::string_view text, int ranks) {
  return Reader(parse_json(text, "program JSON"), ranks).read();
}

}  // namespace coconet::ir
