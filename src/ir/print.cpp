// The printer: a program as text for people, one aligned line per value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/graph.h"
#include "ir/knobs.h"

namespace coconet::ir {

namespace {

constexpr std::size_t line_width = 100;

template <class T>
std::string shortest(T number) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  std::string text(buffer, end);
  // "1e-08" as a person writes it: 1e-8.
  if (const auto e = text.find('e'); e != std::string::npos) {
    const auto digits = text.find_first_not_of("+-0", e + 1);
    const bool negative = text[e + 1] == '-';
    text = text.substr(0, e) + (negative ? "e-" : "e") + text.substr(digits);
  }
  return text;
}

// The shortest text that reads back as `number`. What was written as a float in C++ looks like one:
// 0.9f rather than 0.8999999761581421.
std::string number_text(double number) {
  constexpr double largest_plain_integer = 1e15;
  if (number == std::floor(number) && std::fabs(number) < largest_plain_integer &&
      !std::signbit(number)) {
    return std::to_string(static_cast<std::int64_t>(number));
  }
  const std::string text = shortest(number);
  if (!std::isfinite(number)) return text;
  const auto narrow = static_cast<float>(number);
  if (static_cast<double>(narrow) != number) return text;
  const std::string narrow_text = shortest(narrow) + "f";
  return narrow_text.size() < text.size() ? narrow_text : text;
}

std::string placement_text(const Placement& placement) {
  if (placement.kind == Placement::Kind::sliced) return fmt::format("sliced({})", placement.dim);
  return placement.kind == Placement::Kind::replicated ? "replicated" : "local";
}

// How an op is written in formulas, or empty when it is written as a call.
std::string_view symbol(Op op) {
  using Row = std::pair<Op, std::string_view>;
  static constexpr Row rows[] = {
      {Op::add, "+"},         {Op::subtract, "-"},   {Op::negative, "-"},
      {Op::multiply, "*"},    {Op::divide, "/"},     {Op::less, "<"},
      {Op::less_equal, "<="}, {Op::greater, ">"},    {Op::greater_equal, ">="},
      {Op::equal, "=="},      {Op::not_equal, "!="}, {Op::logical_and, "&&"},
      {Op::logical_or, "||"}, {Op::logical_not, "!"}};
  const auto* const found = std::ranges::find(rows, op, &Row::first);
  return found == std::end(rows) ? "" : found->second;
}

/// How an attribute called `key` is printed, by its kind; empty: not at all.
struct AttributeText {
  const Graph& graph;
  const Node& node;
  std::string_view key;
  std::string operator()(attribute::real, double number) const {
    return fmt::format("{} {}", key, number_text(number));
  }
  std::string operator()(attribute::integer, int number) const {
    return fmt::format("{} {}", key, number);
  }
  std::string operator()(attribute::index, int index) const {
    return fmt::format("{} {}", key, index);
  }
  std::string operator()(attribute::place, std::int64_t place) const {
    return fmt::format("{} {}", key, place);
  }
  std::string operator()(attribute::exception, std::optional<std::int64_t> number) const {
    return number ? fmt::format("or {}", *number) : "";
  }
  std::string operator()(attribute::seed, std::uint64_t seed) const {
    return fmt::format("{} {}", key, seed);
  }
  std::string operator()(attribute::flag, bool flag) const { return std::string(flag ? key : ""); }
  std::string operator()(attribute::reduction, Reduction reduction) const {
    return std::string(to_string(reduction));
  }
  std::string operator()(attribute::mesh_axis, int axis) const {
    return graph.mesh.axes().at(axis).name;
  }
  std::string operator()(auto /*kind*/, const std::vector<int>& list) const {
    return fmt::format("{{{}}}", fmt::join(list, ", "));
  }
  std::string operator()(attribute::dimensions, const std::vector<int>& dims) const {
    const bool all = dims.size() == graph.at(node.operands.front()).shape.size();
    return all && !node.attributes.keep_dims ? "" : (*this)(nullptr, dims);
  }
  std::string operator()(attribute::shape, const Shape& shape) const { return to_string(shape); }
  std::string operator()(attribute::letters, const std::string& letters) const { return letters; }
  std::string operator()(attribute::extent, const Dim& dim) const { return dim.str(); }
  std::string operator()(attribute::dtype, const std::optional<DType>& dtype) const {
    return dtype ? std::string(to_string(*dtype)) : "";
  }
};

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {
    std::vector<int> reads(graph.nodes().size(), 0);
    for (const Node& node : graph.nodes()) {
      for (const ValueId operand : node.operands) ++reads[operand];
    }
    constexpr int deepest = 32;  // parentheses in one another
    std::vector<int> depths(graph.nodes().size(), 0);
    inlined_.reserve(graph.nodes().size());
    for (ValueId id = 0; id < graph.size(); ++id) {
      for (const ValueId operand : graph.at(id).operands) {
        if (inlined(operand)) depths[id] = std::max(depths[id], depths[operand] + 1);
      }
      inlined_.push_back(depths[id] < deepest && reads_inline(graph.at(id), reads[id]));
    }
  }

  std::string str() const { return header() + values() + outputs() + kernels(); }

 private:
  struct Line {
    std::string name, type, layout, expression;
  };

  // Numbers are written where they are used, unless they were named or given at run time. An
  // expression that is read several times stays in its place only when it is a small one, or the
  // text could grow exponentially.
  bool reads_inline(const Node& node, int reads) const {
    if (!node.weak || node.user_named || node.op == Op::scalar) return false;
    return reads <= 1 || std::ranges::all_of(node.operands, [&](ValueId operand) {
             return !inlined(operand) || graph_.at(operand).operands.empty();
           });
  }

  bool inlined(ValueId id) const { return inlined_[id]; }

  std::string operand(ValueId id, bool in_formula) const {
    const Node& node = graph_.at(id);
    if (!inlined(id)) return node.name;
    const bool parentheses = in_formula && !symbol(node.op).empty();
    return parentheses ? "(" + expression(node) + ")" : expression(node);
  }

  std::string expression(const Node& node) const {
    if (node.op == Op::constant) return number_text(node.attributes.number);
    const std::string sign(symbol(node.op));
    if (!sign.empty() && node.operands.size() == 1) return sign + operand(node.operands[0], true);
    if (!sign.empty()) {
      return operand(node.operands[0], true) + " " + sign + " " + operand(node.operands[1], true);
    }
    if (is_given(node.op)) {
      return (node.attributes.scattered ? "scattered " : "") + std::string(to_string(node.op));
    }
    std::string arguments;
    const auto argument = [&](const std::string& text) {
      arguments += (arguments.empty() ? "" : ", ") + text;
    };
    for (const ValueId id : node.operands) argument(operand(id, false));
    const bool reduction = node.op == Op::reduction;  // written as a call of what it combines by
    const std::vector<std::string> attributes = attribute_texts(graph_, node);
    for (std::size_t i = reduction ? 1 : 0; i < attributes.size(); ++i) argument(attributes[i]);
    return fmt::format(
        "{}({})", reduction ? to_string(node.attributes.reduction) : to_string(node.op), arguments);
  }

  std::string header() const {
    std::string text = "program " + graph_.name + " on " + graph_.mesh.str();
    for (const Dim& dim : graph_.dims) {
      text += ", " + dim.name +
              (dim.extent == 0 ? " (no default)" : fmt::format(" = {} (default)", dim.extent));
    }
    return text + "\n";
  }

  std::string values() const {
    std::vector<Line> lines;
    for (ValueId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.at(id);
      if (inlined(id)) continue;
      if (node.weak) {
        lines.push_back({node.name, "number", "", expression(node)});
      } else {
        lines.push_back({node.name, std::string(to_string(node.dtype)) + to_string(node.shape),
                         to_string(node.layout, graph_.mesh), expression(node)});
      }
    }
    Line width;
    const auto widen = [](std::string& column, const std::string& text) {
      if (text.size() > column.size()) column.assign(text.size(), ' ');
    };
    for (const Line& line : lines) {
      widen(width.name, line.name);
      widen(width.type, line.type);
      widen(width.layout, line.layout);
    }
    const auto padded = [](const std::string& text, const std::string& column) {
      return text + std::string(column.size() - text.size() + 2, ' ');
    };
    std::string text;
    for (const Line& line : lines) {
      text += "  " + padded(line.name, width.name) + padded(line.type, width.type) +
              padded(line.layout, width.layout) + line.expression + "\n";
    }
    return text;
  }

  std::string outputs() const {
    std::vector<std::string> items;
    for (const Output& output : graph_.outputs()) {
      const std::string& value = graph_.at(output.value).name;
      items.push_back(output.name == value ? value : output.name + " = " + value);
    }
    return items.empty() ? "" : wrapped("outputs:", items);
  }

  std::string kernels() const {
    std::string text;
    for (const Fusion& fusion : graph_.fusions()) {
      std::vector<std::string> members;
      for (const ValueId id : fusion.members) {
        if (!inlined(id)) members.push_back(graph_.at(id).name);
      }
      text += wrapped(fmt::format("kernel {} ({}{}):", fusion.name, to_string(fusion.kind),
                                  knobs_text(fusion.knobs)),
                      members);
      std::vector<std::string> arriving;
      for (const ValueId id : fusion.arriving) arriving.push_back(graph_.at(id).name);
      if (!arriving.empty()) text += wrapped("  while these are made:", arriving);
    }
    return text;
  }

  static std::string knobs_text(const Knobs& knobs) {
    std::string text;
    for (const KnobRow& row : knob_table()) {
      if (!row.is_set(knobs)) continue;
      const bool one = row.number != nullptr && knobs.*row.number == 1;
      text += text.empty() ? ": " : ", ";
      text += row.value(knobs);
      text += one ? row.unit.substr(0, row.unit.size() - 1) : row.unit;  // "1 channel"
    }
    return text;
  }

  // `head` and the items after it, continued on indented lines where they do not fit.
  static std::string wrapped(std::string head, const std::vector<std::string>& items) {
    std::string text;
    std::string line = std::move(head);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
      if (line.size() + 1 + item.size() > line_width) {
        text += line + "\n";
        line = "   ";
      }
      line += " " + item;
    }
    return text + line + "\n";
  }

  const Graph& graph_;
  Indexed<bool> inlined_;
};

}  // namespace

std::vector<std::string> attribute_texts(const Graph& graph, const Node& node) {
  std::vector<std::string> texts;
  for_each_attribute(node.op, node.attributes,
                     [&](std::string_view key, auto kind, const auto& attribute) {
                       std::string text = AttributeText{graph, node, key}(kind, attribute);
                       if (!text.empty()) texts.push_back(std::move(text));
                     });
  return texts;
}

std::string to_string(const Shape& shape) {
  std::string text;
  for (const Dim& dim : shape) text += (text.empty() ? "" : ", ") + dim.str();
  return "[" + text + "]";
}

std::string to_string(const Placements& layout, const Mesh& mesh) {
  if (layout.size() == 1) return placement_text(layout.front());
  std::string text;
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    const std::string name = axis < mesh.axes().size() ? mesh.axes()[axis].name : "?";
    text += (text.empty() ? "" : ", ") + name + ": " + placement_text(layout[axis]);
  }
  return "{" + text + "}";
}

std::string describe(const Graph& graph, ValueId id) {
  const Node& node = graph.at(id);
  if (node.weak) return node.name + ": number";
  return fmt::format("{}: {}{} {}", node.name, to_string(node.dtype), to_string(node.shape),
                     to_string(node.layout, graph.mesh));
}

std::string print(const Graph& graph) {
  return Printer(graph).str();
}

}  // namespace coconet::ir
