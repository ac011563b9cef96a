// The number of cores that a rank has does not show in its results: the shipped programs, f64 and
// reductions over elements too, end with the same bits on one core and on several.
#include "jit/conformance/results_after.h"
#include "jit/conformance/shipped_conformance.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("the shipped programs end with the same bits on any number of cores") {
  // So many elements that each of three cores has some, of slices and of products.
  const Extents extents = {{"n", {150'001}}, {"B", {3}},   {"S", {131}},
                           {"V", {17}},      {"H", {257}}, {"F", {129}}};
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const programs::Precision& precision : shipped.precisions) {
      for (const int ranks : {1, 2}) {
        const Program program = shipped.build(shipped.mesh(ranks * shipped.stages), precision);
        const Sizes sizes = sizes_of(program, extents).front();
        for (const std::string_view schedule : shipped.schedules) {
          if (!draw()) continue;
          INFO(shipped.name << ", " << to_text(precision) << ", " << program.mesh().str() << ", "
                            << schedule);
          const auto after = [&](const Program& one, int cores) {
            return results_after(one, shipped_schedule(shipped, schedule), sizes, {.cores = cores});
          };
          const auto first = after(program, 1);
          CHECK(after(program, 2) == first);
          CHECK(after(program, 3) == first);
          if (shipped.scattered == nullptr) continue;
          INFO("over a list of buffers");
          const Program scattered = shipped.scattered(program.mesh(), precision);
          CHECK(after(scattered, 3) == after(scattered, 1));
        }
      }
    }
  }
}
