// Writes programs as Graphviz text.
#include "cli/dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "jit/platform/host/process.h"

namespace coconet::cli {

namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// `text` as it stands between quotes: names of values and programs may hold anything.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

/// What a pointwise op looks like in a formula; its name where there is no symbol.
std::string short_name(const Node& node) {
  using Row = std::pair<Op, std::string_view>;
  static constexpr Row rows[] = {
      {Op::add, "+"}, {Op::subtract, "−"}, {Op::multiply, "×"}, {Op::divide, "÷"}};
  const auto* const found = std::ranges::find(rows, node.op, &Row::first);
  return std::string(found == std::end(rows) ? to_string(node.op) : found->second);
}

std::string label(const Graph& graph, ValueId id) {
  const Node& node = graph.at(id);
  if (ir::is_elementwise(node.op)) return short_name(node);
  const std::string what = ir::states_type(node.op) ? node.name
                           : node.op == Op::update ? "write " + graph.at(node.operands.front()).name
                                                   : std::string(to_string(node.op));
  return escaped(what) + "\\n" + escaped(ir::to_string(node.layout, graph.mesh));
}

std::string style(const Node& node) {
  if (ir::states_type(node.op)) return "shape=ellipse, fillcolor=\"#dbe9f6\"";
  if (node.op == Op::update) return "shape=ellipse, fillcolor=\"#d9f2d9\"";
  if (ir::is_collective(node.op)) return "shape=box, fillcolor=\"#fbd9b5\", penwidth=1.5";
  return "shape=circle, fillcolor=\"#f3f3f3\", margin=0.02, width=0.35";
}

class Picture {
 public:
  Picture(const Graph& graph, std::string prefix) : graph_(graph), prefix_(std::move(prefix)) {}

  [[nodiscard]] std::string str(const std::string& title) const {
    std::string text = "  subgraph cluster_" + prefix_ + " {\n    label=\"" + escaped(title) +
                       "\"; color=\"#bbbbbb\";\n";
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (!graph_.at(id).weak && graph_.fusion_of(id) == nullptr) text += "    " + node(id);
    }
    for (const ir::Fusion& fusion : graph_.fusions()) {
      text +=
          "    subgraph cluster_" + prefix_ + "_" + fusion.name + " {\n      label=\"kernel " +
          fusion.name +
          "\"; labelloc=b; style=\"rounded,filled\"; fillcolor=\"#fffbe6\"; color=\"#c9a400\";\n";
      for (const ValueId member : fusion.members) text += "      " + node(member);
      text += "    }\n";
    }
    for (ValueId id = 0; id < graph_.size(); ++id) text += edges(id) + peers(id);
    return text + "  }\n";
  }

 private:
  [[nodiscard]] std::string name(ValueId id) const { return prefix_ + std::to_string(id); }
  [[nodiscard]] std::string node(ValueId id) const {
    return name(id) + " [label=\"" + label(graph_, id) + "\", " + style(graph_.at(id)) + "];\n";
  }
  /// An update writes its state: the edge points from the value to the write, not from the state.
  [[nodiscard]] std::string edges(ValueId id) const {
    const Node& node = graph_.at(id);
    if (node.weak) return {};
    std::string text;
    for (std::size_t i = node.op == Op::update ? 1 : 0; i < node.operands.size(); ++i) {
      if (!graph_.at(node.operands[i]).weak)
        text += "    " + name(node.operands[i]) + " -> " + name(id) + ";\n";
    }
    return text;
  }

  /// The edge between a collective and the ranks that it exchanges data with.
  [[nodiscard]] std::string peers(ValueId id) const {
    const Node& node = graph_.at(id);
    if (node.weak || !ir::is_collective(node.op)) return {};
    const Mesh::Axis& axis = graph_.mesh.axes()[node.attributes.axis];
    const std::string others = name(id) + "_peers";
    return fmt::format(
        "    {0} [label=\"{1} rank{2}\\nof {3}\", shape=box, style=\"rounded,dashed\", "
        "color=\"#d9822b\", fontsize=9];\n"
        "    {0} -> {4} [dir=both, color=\"#d9822b\", penwidth=2];\n",
        others, axis.size, axis.size == 1 ? "" : "s", escaped(axis.name), name(id));
  }

  const Graph& graph_;
  std::string prefix_;
};

}  // namespace

std::string dot(const Program& before, const Program& after) {
  std::string text = "digraph \"" + escaped(before.name()) + "\" {\n";
  text += "  rankdir=TB; nodesep=0.2; ranksep=0.3; fontname=\"Helvetica\";\n";
  text += "  node [style=filled, fontname=\"Helvetica\", fontsize=11, height=0.3];\n";
  text += "  edge [arrowsize=0.6, color=\"#555555\"];\n";
  text += Picture(*ir::graph_of(before), "a").str("program " + before.name() + " as written");
  text += Picture(*ir::graph_of(after), "b").str("after its schedule");
  return text + "}\n";
}

std::string svg(const std::string& dot) {
  const std::filesystem::path program = jit::find_program("dot");
  if (program.empty()) {
    throw BackendError(
        "There is no 'dot' on PATH, which draws pictures; install graphviz, or take --show dot.");
  }
  jit::ProgramRun run{.timeout = std::chrono::minutes(2),
                      .input_name = "picture.dot",
                      .input = dot,
                      .output_name = "picture.svg"};
  run.arguments = {program.string(), "-Tsvg", "-o", (run.directory / run.output_name).string(),
                   (run.directory / run.input_name).string()};
  const jit::Outcome outcome = jit::run_program(run);
  if (!outcome.ok())
    throw BackendError("Graphviz cannot draw the picture: " + outcome.failure + "\n" +
                       outcome.printed);
  return outcome.output;
}

}  // namespace coconet::cli
