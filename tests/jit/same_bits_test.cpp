// A fixed order of additions: the shipped programs end with the same bits under every schedule.
#include <catch2/catch.hpp>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "coconet/coconet.h"
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
    for (const ir::Node& node : program.graph()->nodes) {
      if (node.op != ir::Op::input && node.op != ir::Op::state) continue;
      void* const data = step.own(node.name, dtype);
      if (node.name != "g" && node.name != "w") continue;
      for (std::size_t i = 0; i < n; ++i)
        store_element(dtype, data, i, element(node.name, world.rank(), i));
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

}  // namespace

TEST_CASE("the shipped programs end with the same bits under every schedule") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const DType dtype : {f32, f64, f16, bf16}) {
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
