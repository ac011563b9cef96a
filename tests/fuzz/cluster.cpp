// Cluster descriptions, and what is predicted for them.
#include "sched/cost/cluster.h"

#include <cmath>

#include "coconet/programs.h"
#include "fuzz/targets.h"
#include "ir/access.h"
#include "sched/cost/estimate.h"
#include "sched/plan.h"

namespace coconet::fuzz {

void fuzz_cluster(Bytes bytes) {
  const sched::Cluster cluster = sched::parse_cluster(text_of(bytes));
  const std::string json = sched::to_json(cluster);
  require(sched::to_json(sched::parse_cluster(json)) == json, "a cluster survives its JSON");
  for (const double size : {0.0, 1.0, 1e6, 1e18}) {
    require(!std::isnan(cluster.memory_gb_per_s(size)), "the memory has a rate for every size");
    (void)cluster.lines_us(size);
    (void)cluster.library_us(ir::Op::all_reduce, size);
  }
  constexpr int most_ranks = 4096;  // that are predicted at once
  if (cluster.ranks() > most_ranks) return;
  const programs::Shipped& adam = *programs::find("adam");
  for (const char* const schedule : {"", "adam-fused.json"}) {
    Program program = adam.build(adam.mesh(cluster.ranks()), DType::f32);
    if (*schedule != '\0') program = Schedule::load(schedule).apply(program).back();
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1} << 30}) {
      const sched::Estimate estimate =
          sched::estimate(sched::lower(*ir::graph_of(program)), {{"n", n}}, cluster);
      require(!(estimate.us < 0), "no step takes less than no time");
    }
  }
}

}  // namespace coconet::fuzz
