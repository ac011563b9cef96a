// Where a rank's slices begin.
#include "jit/bind/rank_plan.h"

#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "shipped.h"

using namespace coconet;

namespace {

/// Buffers that the kernels of `plan` access from an address that is no multiple of 16 bytes,
/// where the tensors begin at one.
std::vector<std::string> unaligned(const sched::Plan& plan, std::int64_t n, int rank) {
  const jit::RankPlan of_rank(plan, {{"n", n}}, {}, rank);
  std::vector<std::string> found;
  for (const sched::PlanStep& step : plan.steps) {
    const auto* kernel = std::get_if<sched::KernelStep>(&step);
    if (kernel == nullptr) continue;
    const auto look = [&](const auto& accesses) {
      for (const auto& access : accesses) {
        const std::size_t first = of_rank.view(*kernel, access.buffer).offset;
        if (first * of_rank.element_size(access.buffer) % 16 != 0)
          found.push_back(kernel->name + ": " + of_rank.buffer(access.buffer).name);
      }
    };
    look(kernel->loads());
    look(kernel->stores());
  }
  return found;
}

}  // namespace

TEST_CASE("every rank's slice of a large tensor begins where vectors do, whatever the size") {
  int plans = 0;
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const int ranks : {2, 3, 8}) {
      const Mesh mesh({{"world", ranks}});
      if (shipped.stages > 1) continue;
      const Program program = shipped.build(mesh, shipped.precisions.back());
      if (ir::graph_of(program)->dims.front().name != "n") continue;
      for (const std::string_view schedule : shipped.schedules) {
        const Schedule steps = test::shipped_schedule(shipped, schedule);
        const sched::Plan plan = sched::lower(*ir::graph_of(steps.apply(program).back()));
        ++plans;
        for (std::int64_t n = 1024 * ranks; n < 1024 * ranks + 32; ++n) {
          INFO(steps.name() << ", " << ranks << " ranks, n = " << n);
          CHECK(unaligned(plan, n, ranks - 1) == std::vector<std::string>{});
        }
      }
    }
  }
  CHECK(plans > 20);
}
