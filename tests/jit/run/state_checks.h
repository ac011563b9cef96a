// Executables that share states, and that change their extents, on a rank of any world.
#pragma once

#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "holdings.h"
#include "jit/comm/require_on_rank.h"
#include "shipped.h"

namespace coconet::test {

/// w -= the mean over all ranks of g, fused: kernels reach w from other ranks.
inline Executable compile_train(const World& world, std::int64_t n) {
  return compile_shipped(world, "sgd", "fused", n);
}

/// seen += w, then w += 1: on every rank for itself.
inline Executable compile_look(const World& world, std::int64_t n) {
  Program program("look", Mesh::over(world));
  const Dim dim = program.dim("n");
  const Value w = program.state("w", f32, {dim}, replicated);
  const Value seen = program.state("seen", f32, {dim}, replicated);
  update(seen, seen + w);
  update(w, w + 1);
  return compile(program, Schedule(), world, {{"n", n}});
}

/// Alternates `steps` times between the two, of which one shares the other's w, and compares both
/// states with what they must be: whole numbers, so that f32 is exact.
inline void check_alternation(const World& world, int steps, bool train_owns) {
  constexpr std::int64_t n = 1037;
  Executable train = compile_train(world, n), look = compile_look(world, n);
  std::vector<float> start(n);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i);
  (train_owns ? train : look).write("w", start);
  if (train_owns) {
    look.share_states(train);
  } else {
    train.share_states(look);
  }
  train.write("g", std::vector<float>(n, static_cast<float>(2 * world.rank() + 4)));
  const float mean = static_cast<float>(world.size() + 3);
  std::vector<float> expected = start, expected_seen(n);
  for (int step = 0; step < steps; ++step) {
    train.run({{"lr", 1}});
    look.run();
    for (std::size_t i = 0; i < start.size(); ++i) {
      expected[i] -= mean;
      expected_seen[i] += expected[i];
      expected[i] += 1;
    }
    if (step % 100 != 0 && step != steps - 1) continue;
    REQUIRE_ON_RANK(elements_of(train, "w") == expected);
    REQUIRE_ON_RANK(elements_of(look, "w") == expected);
    REQUIRE_ON_RANK(elements_of(look, "seen") == expected_seen);
  }
  world.barrier();
}

/// Rows that every rank has of its own: their sum's mean over the ranks moves w; y = x * w.
inline Executable compile_rows(const World& world, std::int64_t rows, bool fused) {
  Program program("rows", Mesh::over(world));
  const Dim k = program.dim("k", 100);
  const Value x = program.input("x", f32, {program.dim("B"), k}, local);
  const Value w = program.state("w", f32, {k}, replicated);
  const Value mean_of_ranks = all_reduce(sum(x, {0}).named("rows"), mean).named("mean");
  const Value w1 = update(w, w - mean_of_ranks);
  program.output("y", (x * w).named("y"));
  Scheduler scheduler(program, "rows");
  if (fused) {
    const auto [scattered, gathered] = scheduler.split(mean_of_ranks);
    const auto whole = scheduler.reorder(gathered, {w1});
    scheduler.fuse("rows_fused", {scattered, whole, w1});
  }
  return compile(program, scheduler.schedule(), world, {{"B", rows}});
}

/// Resizes a step `times` times back and forth, with a run each, and compares with what it must
/// compute. What the process has grown by in the second half.
[[nodiscard]] inline std::string growth_of_resizes(const World& world, int times, bool fused) {
  constexpr std::int64_t few = 3, many = 65, k = 100;
  Executable step = compile_rows(world, many, fused);
  const float* const memory = step.data<float>("w").data();
  const std::string text = step.sources().front().second;
  Holdings before;
  float expected = 0;
  for (int time = 0; time < times; ++time) {
    const std::int64_t rows = time % 2 == 0 ? few : many;
    step.resize({{"B", rows}});
    REQUIRE_ON_RANK(step.count("x") == static_cast<std::size_t>(rows * k));
    REQUIRE_ON_RANK(step.data<float>("w").data() == memory);
    const float own = static_cast<float>(world.rank() + 1);
    step.write("x", std::vector<float>(step.count("x"), own));
    step.run();
    const float last = expected;
    expected -= static_cast<float>(rows * (world.size() + 1)) / 2;
    REQUIRE_ON_RANK(elements_of(step, "w") == std::vector<float>(k, expected));
    REQUIRE_ON_RANK(elements_of(step, "y") ==
                    std::vector<float>(static_cast<std::size_t>(rows * k), own * last));
    if (time == times / 2 - 1) before = holdings_at_rest(world);  // of as many rows as at the end
  }
  const Holdings after = holdings_at_rest(world);
  REQUIRE_ON_RANK(step.sources().front().second == text);
  return growth(before, after);
}

}  // namespace coconet::test
