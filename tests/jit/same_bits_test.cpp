// A fixed order of additions: the shipped programs end with the same bits under every schedule, but for those that
// reduce over elements, whose order of additions is that of the slices.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "ir/extents.h"
#include "ir/graph.h"

using namespace coconet;

namespace {

using Bytes = std::vector<std::byte>;

/// Gradients and parameters of ordinary size, different on every rank where they may be.
double element(const std::string& name, int rank, std::size_t index) {
  const std::size_t shift = name == "g" ? static_cast<std::size_t>(rank) * 31 : 1000;
  return (static_cast<double>((index * 7 + shift * 13) % 1009) - 504.0) / 1000.0;
}

/// The parameters after three steps, as rank 0 has them.
Bytes parameters_after(const programs::Shipped& shipped, std::string_view schedule, DType dtype,
                       int ranks, std::size_t n) {
  Bytes result(n * size_of(dtype));
  World::local(ranks, [&](World& world) {
    const Program program = shipped.build(Mesh::over(world), dtype);
    Executable step = compile(
        program, Schedule::load(std::string(shipped.name) + "-" + std::string(schedule) + ".json"),
        world, {{"n", static_cast<std::int64_t>(n)}});
    const Program scheduled = step.program();
    for (const ir::Node& node : scheduled.graph()->nodes) {
      if (node.op != ir::Op::input && node.op != ir::Op::state) continue;
      void* const data = step.own(node.name, node.dtype);
      if (node.name != "g" && node.name != "w" && node.name != "master") continue;
      const ir::Part part =
          ir::part_of(scheduled.mesh(), node.layout, {static_cast<std::int64_t>(n)}, world.rank());
      const auto begin = static_cast<std::size_t>(part.begin[0]);
      for (std::size_t i = 0; i < step.count(node.name); ++i) {
        // The master copy starts as the parameters, rounded as they are.
        const double value = element(node.name, world.rank(), begin + i);
        store_element(node.dtype, data, i, round_to(dtype, value));
      }
    }
    for (int t = 1; t <= 3; ++t) {
      std::vector<ScalarValue> scalars = {{"lr", 0.01}};
      if (program.graph()->find("t") >= 0) scalars.emplace_back("t", t);
      step.run(scalars);
    }
    world.barrier();
    if (world.rank() == 0) std::memcpy(result.data(), step.own("w", dtype), result.size());
  });
  return result;
}

bool reduces_elements(const Program& program) {
  const auto& nodes = program.graph()->nodes;
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const ir::Node& node) { return node.op == ir::Op::reduction; });
}

}  // namespace

TEST_CASE("the shipped programs end with the same bits under every schedule") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (reduces_elements(shipped.build(Mesh({{"world", 2}}), shipped.dtypes.front()))) continue;
    for (const DType dtype : shipped.dtypes) {
      for (const int ranks : {2, 3, 5}) {
        for (const std::size_t n : {17, 10007}) {
          INFO(shipped.name << ", " << to_string(dtype) << ", " << ranks << " ranks, n = " << n);
          const Bytes first = parameters_after(shipped, shipped.schedules.front(), dtype, ranks, n);
          for (const std::string_view schedule : shipped.schedules) {
            INFO(schedule << " against " << shipped.schedules.front());
            CHECK(parameters_after(shipped, schedule, dtype, ranks, n) == first);
          }
        }
      }
    }
  }
}
