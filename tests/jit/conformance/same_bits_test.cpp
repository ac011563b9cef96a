// A fixed order of additions: the shipped programs end with the same bits under every schedule,
// over lists of buffers too, but for those that reduce over elements, whose order of additions is
// that of the slices.
#include <algorithm>

#include "cli/data.h"
#include "ir/access.h"
#include "jit/conformance/shipped_conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

using Bytes = std::vector<std::byte>;

/// What `program` leaves: its parameters, and its outputs.
std::vector<std::string> results_of(const Program& program) {
  std::vector<std::string> names;
  for (const ir::Output& output : ir::graph_of(program)->outputs()) names.push_back(output.name);
  if (names.empty()) names.emplace_back("w");
  return names;
}

/// The results after some steps, of all ranks in turn.
std::vector<Bytes> results_after(const Program& program, const Schedule& schedule,
                                 const Sizes& sizes) {
  std::vector<Bytes> results(static_cast<std::size_t>(program.mesh().size()));
  World::local(program.mesh().size(), [&](World& world) {
    Executable step =
        compile(program, schedule, world, sizes, cli::test_lists(*ir::graph_of(program), sizes));
    (void)cli::drive(step, world, sizes, {});
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

bool reduces_elements(const Program& program) {
  const auto& nodes = ir::graph_of(program)->nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const ir::Node& node) { return node.op == ir::Op::reduction; });
}

}  // namespace

TEST_CASE("the shipped programs end with the same bits under every schedule") {
  const Extents extents = {
      {"n", {17, 10007}}, {"B", {1, 3}}, {"S", {5, 13}}, {"H", {17, 131}}, {"F", {3, 129}}};
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (reduces_elements(shipped.build(shipped.mesh(2), f64))) continue;
    for (const programs::Precision& precision : shipped.precisions) {
      for (const int ranks : {2, 3, 5}) {
        const Program program = shipped.build(shipped.mesh(ranks * shipped.stages), precision);
        for (const Sizes& sizes : sizes_of(program, extents)) {
          if (!draw()) continue;
          INFO(shipped.name << ", " << to_text(precision) << ", " << program.mesh().str() << ", "
                            << to_text(sizes));
          const auto first =
              results_after(program, shipped_schedule(shipped, shipped.schedules.front()), sizes);
          for (const std::string_view schedule : shipped.schedules) {
            INFO(schedule << " against " << shipped.schedules.front());
            CHECK(results_after(program, shipped_schedule(shipped, schedule), sizes) == first);
            if (shipped.scattered == nullptr || ranks != 3) continue;
            INFO("over a list of buffers");
            CHECK(results_after(shipped.scattered(program.mesh(), precision),
                                shipped_schedule(shipped, schedule), sizes) == first);
          }
        }
      }
    }
  }
}
