// A fixed order of additions: the shipped programs end with the same bits under every schedule,
// over lists of buffers too, but for those that reduce over elements, whose order of additions is
// that of the slices.
#include <algorithm>

#include "ir/access.h"
#include "jit/conformance/results_after.h"
#include "jit/conformance/shipped_conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

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
