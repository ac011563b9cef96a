// Program JSON: read, checked again, printed, written, lowered, generated and, where it is small,
// run by the reference.
#include "coconet/program.h"

#include "fuzz/generated_text.h"
#include "fuzz/targets.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/json/mesh.h"
#include "ir/reference/reference.h"

namespace coconet::fuzz {
namespace {

constexpr int open_ranks = 4;  // where the mesh leaves them open

/// Whether the reference takes no time and memory to speak of.
bool is_small(const ir::Graph& graph, const std::map<std::string, std::int64_t>& sizes) {
  constexpr int most_ranks = 8, most_values = 64;
  constexpr std::int64_t most_elements = 512, most_products = 1 << 15;
  if (graph.mesh.size() > most_ranks || graph.size() > most_values) return false;
  for (const ir::Node& node : graph.nodes()) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : ir::global_extents(node.shape, sizes)) {
      if (extent > most_elements || (elements *= extent) > most_elements) return false;
    }
    if (node.op != ir::Op::matmul) continue;
    for (const std::int64_t extent :
         ir::global_extents(graph.at(node.operands.front()).shape, sizes)) {
      if (extent > most_elements || (elements *= extent) > most_products) return false;
    }
  }
  return true;
}

void run_reference(const ir::Graph& graph) {
  std::map<std::string, std::int64_t> given;
  for (const Dim& dim : graph.dims) given[dim.name] = 3;
  ir::Lists lists;
  for (const std::string& dim : ir::listed_dims(graph)) lists[dim] = {1, 2};
  const auto sizes = ir::resolve_sizes(graph, given, lists);
  if (!is_small(graph, sizes)) return;
  ir::Reference reference(graph, given, lists);
  std::map<std::string, double> scalars;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.at(id);
    if (node.op == ir::Op::scalar) scalars[node.name] = 2;
    if (node.op != ir::Op::input) continue;
    ir::RankData parts;
    for (int rank = 0; rank < graph.mesh.size(); ++rank)
      parts.push_back(ir::Data(static_cast<std::size_t>(reference.part(id, rank).count()), 1.5));
    reference.set(node.name, std::move(parts));
  }
  reference.run(scalars);
}

}  // namespace

void fuzz_program(Bytes bytes) {
  (void)ir::find_open(text_of(bytes));
  const Program program = Program::parse(text_of(bytes), open_ranks);
  const ir::Graph& graph = *ir::graph_of(program);
  ir::verify(graph);
  const std::string json = program.json();
  const Program again = Program::parse(json);
  require(again.json() == json, "a program survives its JSON");
  require(again.str() == program.str(), "a program is printed as before it was JSON");
  check_kernels_of(program);
  run_reference(graph);
}

}  // namespace coconet::fuzz
