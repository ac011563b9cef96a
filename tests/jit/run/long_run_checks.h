// Long runs on a rank of any world: that nothing grows with the number of steps and executables.
#pragma once

#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "holdings.h"
#include "jit/comm/require_on_rank.h"

namespace coconet::test {

/// How the steps of a long run exchange data.
struct LongRun {
  const char* name;
  const char* algorithm;  ///< null: the library's collective, and a kernel behind it
  const char* protocol;
};
inline constexpr LongRun long_runs[] = {{"fused, direct", "direct", "simple"},
                                        {"fused, ring with ll128", "ring", "ll128"},
                                        {"fused, tree with ll", "tree", "ll"},
                                        {"a library collective", nullptr, nullptr}};

/// w += the sum of g over the ranks, in steps as `run` says.
[[nodiscard]] inline Executable compile_sum(const World& world, const LongRun& run,
                                            std::int64_t n) {
  Program program("add", Mesh::over(world));
  const Dim d = program.dim("n");
  const Value g = program.input("g", f32, {d}, local);
  const Value w = program.state("w", f32, {d}, replicated);
  update(w, w + all_reduce(g, Reduction::sum).named("total"));
  Schedule schedule;
  if (run.algorithm != nullptr) {
    Knobs knobs;
    knobs.algorithm = run.algorithm;
    knobs.protocol = run.protocol;
    schedule.split("total")
        .reorder("total.all_gather", {"w.new"})
        .fuse("fused", "all_reduce", {"total.reduce_scatter", "w.slice", "w.all_gather"}, knobs);
  }
  return compile(program, schedule, world, {{"n", n}});
}

/// Runs `steps` steps, and reports in between as a monitor would. What the process has grown by
/// in the second half; on the ranks of one process, those of all.
[[nodiscard]] inline std::string growth_of_steps(const World& world, const LongRun& run,
                                                 int steps) {
  constexpr std::int64_t n = 100;
  Executable step = compile_sum(world, run, n);
  step.write("g", std::vector<float>(n, 1));
  Holdings before;
  for (int done = 1; done <= steps; ++done) {
    step.run();
    if (done % 50 == 0) step.synchronize();  // a GPU has a backlog
    if (done % 1000 == 0) (void)step.local_stats();
    if (done == steps / 2) before = holdings_at_rest(world);
  }
  const Holdings after = holdings_at_rest(world);
  REQUIRE_ON_RANK(elements_of(step, "w") ==
                  std::vector<float>(n, static_cast<float>(steps * world.size())));
  return growth(before, after);
}

/// Makes, runs and destroys `count` executables, one after the other.
[[nodiscard]] inline std::string growth_of_executables(const World& world, int count) {
  Holdings before;
  for (int made = 1; made <= count; ++made) {
    Executable step = compile_sum(world, long_runs[made % std::size(long_runs)], 5000);
    step.write("g", std::vector<float>(5000, 2));
    step.run();
    REQUIRE_ON_RANK(elements_of(step, "w") ==
                    std::vector<float>(5000, static_cast<float>(2 * world.size())));
    if (made == count / 2) before = holdings_at_rest(world);
  }
  const Holdings after = holdings_at_rest(world);
  return growth(before, after);
}

}  // namespace coconet::test
