#include "cli/drive.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <new>

#include "cli/data.h"
#include "coconet/error.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"

namespace coconet::cli {

namespace {

void fill(Executable& step, const ir::Graph& graph, ir::ValueId id, const Sizes& sizes, int rank,
          const DriveOptions& options, int iteration) {
  const ir::Node& node = graph.at(id);
  const ir::Data data =
      test_data(graph, id, sizes, rank, options.seed, static_cast<std::uint64_t>(iteration));
  if (step.count(node.name) != data.size()) {
    throw InternalError(
        fmt::format("The buffer of '{}' holds {} elements on rank {}, where its layout says {}.",
                    node.name, step.count(node.name), rank, data.size()));
  }
  std::vector<std::byte> elements(data.size() * size_of(node.dtype));
  for (std::size_t i = 0; i < data.size(); ++i)
    store_element(node.dtype, elements.data(), i, data[i]);
  step.write(node.name, node.dtype, elements.data(), data.size());
}

}  // namespace

double default_scalar(const std::string& name, int step) {
  if (name == "lr") return 1e-2;
  if (name == "t") return step;
  return 0.5;
}

std::map<std::string, double> scalars_at(const ir::Graph& graph, const DriveOptions& options,
                                         int step) {
  std::map<std::string, double> scalars;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::scalar) continue;
    const auto given = options.scalars.find(node.name);
    scalars[node.name] =
        given != options.scalars.end() ? given->second : default_scalar(node.name, step);
  }
  return scalars;
}

std::vector<double> drive(Executable& step, const World& world, const Sizes& sizes,
                          const DriveOptions& options) {
  const Program program = step.program();
  const ir::Graph& graph = *ir::graph_of(program);
  const Sizes resolved = ir::resolve_sizes(graph, sizes);
  std::vector<double> ms;
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (options.give) {
      if (iteration == 0) options.give(step);
    } else if (iteration == 0 || options.fresh_inputs) {
      jit::together(jit::comm_of(world), [&] {
        for (ir::ValueId id = 0; id < graph.size(); ++id) {
          const ir::Op op = graph.at(id).op;
          const bool has_states = iteration > 0 || options.has_states;
          if (op != ir::Op::input && (op != ir::Op::state || has_states)) continue;
          const int number = options.fresh_inputs ? options.first + iteration : 0;
          try {
            fill(step, graph, id, resolved, world.rank(), options, number);
          } catch (const std::bad_alloc&) {
            throw BackendError(
                fmt::format("There is no memory to make up the {} elements of '{}' on this rank; "
                            "make the sizes smaller, or run fewer ranks on a machine.",
                            step.count(graph.at(id).name), graph.at(id).name));
          }
        }
      });
    }
    const int taken = options.first + iteration + 1;
    const auto scalars = scalars_at(graph, options, taken);
    const std::vector<ScalarValue> values(scalars.begin(), scalars.end());
    const auto start = std::chrono::steady_clock::now();
    step.run(values);
    step.synchronize();
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                     .count());
    if (options.after) options.after(step, taken);
  }
  return ms;
}

}  // namespace coconet::cli
