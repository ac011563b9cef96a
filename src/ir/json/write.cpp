// Writes a program as JSON: one line per value, and only what inference cannot find out again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "coconet/error.h"
#include "ir/graph.h"
#include "ir/knobs.h"

namespace coconet::ir {

namespace {

using Json = nlohmann::ordered_json;

// On one line, with a blank after commas and colons.
std::string one_line(const Json& json) {
  if (!json.is_structured()) return json.dump();
  std::string text;
  for (const auto& item : json.items()) {
    if (!text.empty()) text += ", ";
    if (json.is_object()) text += Json(item.key()).dump() + ": ";
    text += one_line(item.value());
  }
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string one_per_line(const Json& array) {
  std::string text;
  for (const Json& item : array) text += (text.empty() ? "\n    " : ",\n    ") + one_line(item);
  return text.empty() ? "[]" : "[" + text + "\n  ]";
}

// Whole numbers are written without a fraction, as a person would. JSON has no words for what is
// not finite.
Json number_json(double number) {
  constexpr double largest_exact_integer = 9007199254740992.0;
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  const bool whole = number == std::floor(number) && std::fabs(number) <= largest_exact_integer;
  if (whole && !(number == 0 && std::signbit(number))) return static_cast<std::int64_t>(number);
  return number;
}

Json dim_json(const Dim& dim) {
  if (dim.symbolic()) return dim.name;
  return dim.extent;
}

Json layout_json(const Placements& layout, const Mesh& mesh) {
  const bool same = std::ranges::count(layout, layout.front()) == std::ssize(layout);
  if (same && (layout.size() == 1 || layout.front().kind != Placement::Kind::sliced)) {
    return to_string({layout.front()}, mesh);
  }
  Json axes = Json::object();
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (layout[axis] != replicated)
      axes[mesh.axes().at(axis).name] = to_string({layout[axis]}, mesh);
  }
  return axes;
}

/// How an attribute is written, by its kind; null: not at all.
struct AttributeWriter {
  const Mesh& mesh;
  Json operator()(attribute::real, double number) const { return number_json(number); }
  Json operator()(attribute::integer, int number) const { return number; }
  Json operator()(attribute::index, int index) const { return index; }
  Json operator()(attribute::place, std::int64_t place) const { return place; }
  Json operator()(attribute::exception, std::optional<std::int64_t> number) const {
    return number ? Json(*number) : Json();
  }
  Json operator()(attribute::seed, std::uint64_t seed) const { return seed; }
  Json operator()(attribute::flag, bool flag) const { return flag ? Json(true) : Json(); }
  Json operator()(attribute::reduction, Reduction reduction) const { return to_string(reduction); }
  Json operator()(attribute::mesh_axis, int axis) const { return mesh.axes().at(axis).name; }
  Json operator()(auto /*kind*/, const std::vector<int>& list) const { return list; }
  Json operator()(attribute::shape, const Shape& shape) const {
    Json dims = Json::array();
    for (const Dim& dim : shape) dims.push_back(dim_json(dim));
    return dims;
  }
  Json operator()(attribute::letters, const std::string& letters) const { return letters; }
  Json operator()(attribute::extent, const Dim& dim) const { return dim_json(dim); }
  Json operator()(attribute::dtype, const std::optional<DType>& dtype) const {
    return dtype ? Json(to_string(*dtype)) : Json();
  }
};

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph), inlined_(graph.nodes().size(), false) {
    const auto& users = graph.users();
    for (ValueId id = 0; id < graph.size(); ++id) {
      const Node& node = graph.at(id);
      inlined_[id] = node.op == Op::constant && !node.user_named &&
                     std::isfinite(node.attributes.number) && !users[id].empty() &&
                     graph.fusion_of(id) == nullptr;
    }
  }

  std::string str() const {
    std::string text = fmt::format("{{\n  \"coconet_program\": {}", program_json_version);
    text += ",\n  \"name\": " + Json(graph_.name).dump();
    text += ",\n  \"mesh\": " + one_line(mesh());
    if (!graph_.dims.empty()) text += ",\n  \"dims\": " + one_line(dims());
    text += ",\n  \"values\": " + one_per_line(values());
    if (!graph_.outputs().empty()) text += ",\n  \"outputs\": " + one_per_line(outputs());
    if (!graph_.fusions().empty()) text += ",\n  \"kernels\": " + one_per_line(kernels());
    return text + "\n}\n";
  }

 private:
  Json mesh() const {
    Json axes = Json::array();
    for (const Mesh::Axis& axis : graph_.mesh.axes())
      axes.push_back({{"name", axis.name}, {"size", axis.size}});
    return axes;
  }

  Json dims() const {
    Json dims = Json::array();
    for (const Dim& dim : graph_.dims) {
      dims.push_back({{"name", dim.name}});
      if (dim.extent != 0) dims.back()["default"] = dim.extent;
    }
    return dims;
  }

  Json values() const {
    Json values = Json::array();
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (!inlined_[id]) values.push_back(value(graph_.at(id)));
    }
    return values;
  }

  Json value(const Node& node) const {
    Json value = {{"name", node.name}};
    if (!node.user_named) value["named"] = false;
    if (!node.origin.empty()) value["origin"] = node.origin;
    value["op"] = to_string(node.op);
    if (!node.operands.empty()) value["operands"] = Json::array();
    for (const ValueId id : node.operands) {
      const Node& operand = graph_.at(id);
      value["operands"].push_back(inlined_[id] ? number_json(operand.attributes.number)
                                               : Json(operand.name));
    }
    if (states_type(node.op)) {
      value["dtype"] = to_string(node.dtype);
      value["shape"] = AttributeWriter{graph_.mesh}(attribute::shape{}, node.shape);
      value["layout"] = layout_json(node.layout, graph_.mesh);
    }
    for_each_attribute(node.op, node.attributes,
                       [&](std::string_view key, auto kind, const auto& attribute) {
                         Json json = AttributeWriter{graph_.mesh}(kind, attribute);
                         if (!json.is_null()) value[std::string(key)] = std::move(json);
                       });
    return value;
  }

  Json outputs() const {
    Json outputs = Json::array();
    for (const Output& output : graph_.outputs()) {
      outputs.push_back({{"name", output.name}, {"value", graph_.at(output.value).name}});
    }
    return outputs;
  }

  Json kernels() const {
    Json kernels = Json::array();
    for (const Fusion& fusion : graph_.fusions()) {
      Json members = Json::array();
      for (const ValueId id : fusion.members) members.push_back(graph_.at(id).name);
      Json kernel = {{"name", fusion.name}, {"kind", to_string(fusion.kind)}, {"members", members}};
      for (const KnobRow& row : knob_table()) {
        if (!row.is_set(fusion.knobs)) continue;
        Json& knob = kernel["knobs"][std::string(row.name)];
        if (row.text != nullptr) {
          knob = fusion.knobs.*row.text;
        } else {
          knob = fusion.knobs.*row.number;
        }
      }
      for (const ValueId id : fusion.arriving) kernel["arriving"].push_back(graph_.at(id).name);
      kernels.push_back(std::move(kernel));
    }
    return kernels;
  }

  const Graph& graph_;
  Indexed<bool> inlined_;
};

}  // namespace

std::string to_json(const Graph& graph) {
  try {
    return Writer(graph).str();
  } catch (const nlohmann::json::type_error&) {
    throw ProgramError("program '" + graph.name +
                       "' cannot be written as JSON, which is UTF-8: a name in it is not");
  }
}

}  // namespace coconet::ir
