// What a program leaves, to compare bit for bit.
#pragma once

#include <string>
#include <vector>

#include "cli/data.h"
#include "cli/drive.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/lists.h"

namespace coconet::test {

using Bytes = std::vector<std::byte>;

/// What `program` leaves: its parameters, and its outputs.
[[nodiscard]] inline std::vector<std::string> results_of(const Program& program) {
  std::vector<std::string> names;
  for (const ir::Output& output : ir::graph_of(program)->outputs()) names.push_back(output.name);
  if (names.empty()) names.emplace_back("w");
  return names;
}

/// The results after some steps, of all ranks in turn.
[[nodiscard]] inline std::vector<Bytes> results_after(const Program& program,
                                                      const Schedule& schedule, const Sizes& sizes,
                                                      const Options& options = {}) {
  std::vector<Bytes> results(static_cast<std::size_t>(program.mesh().size()));
  const ParameterLists lists = cli::test_lists(*ir::graph_of(program), sizes);
  const Sizes resolved = ir::resolve_sizes(*ir::graph_of(program), sizes, lists);
  World::local(program.mesh().size(), [&](World& world) {
    Executable step = compile(program, schedule, world, sizes, lists, options);
    (void)cli::drive(step, world, resolved, {});
    Bytes& mine = results[static_cast<std::size_t>(world.rank())];
    for (const std::string& name : results_of(program)) {
      const ir::Graph& graph = *ir::graph_of(program);
      const DType dtype = graph.at(graph.require(name)).dtype;
      Bytes one(step.count(name) * size_of(dtype));
      step.read(name, dtype, one.data(), step.count(name));
      mine.insert(mine.end(), one.begin(), one.end());
    }
  });
  return results;
}

}  // namespace coconet::test
