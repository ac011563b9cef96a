// COCONET_CHECK=1: ranks that do not have the same where they must are told before a step runs.
#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/rank_outcomes.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// f32 of more than four blocks that have one checksum each.
constexpr std::int64_t elements = 70'001;

/// What `body` throws on the ranks of a local world whose steps are checked.
std::vector<RankOutcome> outcomes(int ranks, const std::function<void(World&)>& body) {
  return outcomes_of(ranks, body, {.check = true});
}

void require_none(const std::vector<RankOutcome>& all) {
  check_outcomes(all, "", "");
}

/// w += lr * (the sum of g) * mask, where all ranks must have the same w and mask.
Executable compile_step(const World& world, bool fused = true) {
  Program program("step", Mesh::over(world));
  const Dim d = program.dim("n");
  const Value g = program.input("g", f32, {d}, local);
  const Value mask = program.input("mask", f32, {d}, replicated);
  const Value w = program.state("w", f32, {d}, replicated);
  const Value lr = program.scalar("lr");
  const Value total = all_reduce(g, Reduction::sum).named("total");
  update(w, w + lr * total * mask);
  Schedule schedule;
  if (fused) {
    schedule.split("total")
        .reorder("total.all_gather", {"w.new"})
        .fuse("fused", "all_reduce", {"total.reduce_scatter", "w.slice", "w.all_gather"});
  }
  return compile(program, schedule, world, {{"n", elements}});
}

void fill(Executable& step) {
  step.write("g", std::vector<float>(elements, 2));
  step.write("mask", std::vector<float>(elements, 1));
  step.write("w", std::vector<float>(elements, 5));
}

void change(Executable& step, const char* name, std::size_t index, float value) {
  step.data<float>(name)[index] = value;
}

}  // namespace

TEST_CASE("ranks whose replicated tensors differ are told which, where, and go on") {
  for (const bool fused : {false, true}) {
    INFO("fused: " << fused);
    std::vector<RankOutcome> first(3), second(3);
    require_none(outcomes(3, [&](World& world) {
      Executable step = compile_step(world, fused);
      fill(step);
      if (world.rank() == 1) change(step, "mask", 40'000, 0.5F);
      first[world.rank()] = outcome_of([&] { step.run({{"lr", 0.5}}); });
      if (world.rank() == 1) change(step, "mask", 40'000, 1);
      if (world.rank() != 0) change(step, "w", elements - 1, 7);
      second[world.rank()] = outcome_of([&] { step.run({{"lr", 0.5}}); });
      if (world.rank() != 0) change(step, "w", elements - 1, 5);
      step.run({{"lr", 0.5}});
      if (elements_of(step, "w") != std::vector<float>(elements, 8))
        throw InternalError("the step's result is wrong");
    }));
    check_outcomes(
        first, "CommError",
        "input 'mask' must be the same on ranks that hold the same part of it, but rank 1 "
        "has other elements than rank 0: element 40000 of the part is 1 on rank 0 and 0.5 "
        "on rank 1 (COCONET_CHECK)");
    check_outcomes(
        second, "CommError",
        "state 'w' must be the same on ranks that hold the same part of it, but ranks 1 and "
        "2 have other elements than rank 0: element 70000 of the part is 5 on rank 0 and 7 "
        "on rank 1 (COCONET_CHECK)");
  }
}

TEST_CASE("without the check such ranks are not told") {
  require_none(outcomes_of(2, [](World& world) {
    Executable step = compile_step(world);
    fill(step);
    if (world.rank() == 1) change(step, "mask", 40'000, 0.5F);
    step.run({{"lr", 0.5}});
  }));
}

TEST_CASE("a NaN is the same as itself") {
  require_none(outcomes(2, [](World& world) {
    Executable step = compile_step(world);
    fill(step);
    change(step, "mask", 3, std::numeric_limits<float>::quiet_NaN());
    step.run({{"lr", 0.5}});
    if (!std::isnan(step.data<const float>("w")[3])) throw InternalError("the NaN is lost");
  }));
}

TEST_CASE("ranks are compared with those that hold the same part only") {
  // x is sliced along rows and the same along columns.
  const auto body = [](World& world, int wrong) {
    Program program("grid", Mesh({{"row", 2}, {"column", 2}}));
    const Dim d = program.dim("n");
    const Value x = program.input("x", f32, {d}, Layout::on({{"row", sliced(0)}}));
    program.output("y", x + x);
    Executable step = compile(program, world, {{"n", 10}});
    std::vector<float> mine(step.count("x"), static_cast<float>(world.rank() / 2));
    if (world.rank() == wrong) mine[4] = 9;
    step.write("x", mine);
    step.run();
  };
  require_none(outcomes(4, [&](World& world) { body(world, -1); }));
  check_outcomes(
      outcomes(4, [&](World& world) { body(world, 3); }), "CommError",
      "input 'x' must be the same on ranks that hold the same part of it, but rank 3 has "
      "other elements than rank 2: element 4 of the part is 1 on rank 2 and 9 on rank 3 "
      "(COCONET_CHECK)");
}

TEST_CASE("scattered tensors are compared, too") {
  check_outcomes(
      outcomes(2,
               [](World& world) {
                 const programs::Shipped& adam = *programs::find("adam");
                 const Program program = adam.scattered(adam.mesh(world.size()), DType::f32);
                 Executable step = compile(program, Schedule::load("adam-fused.json"), world, {},
                                           {{"n", {3, 1, 4}}});
                 step.write("g", std::vector<float>(8, 1));
                 std::vector<float> w(8, 1);
                 if (world.rank() == 1) w[5] = 2;
                 step.write("w", w);
                 step.run({{"lr", 0.1}, {"t", 1.0}});
               }),
      "CommError",
      "state 'w' must be the same on ranks that hold the same part of it, but rank 1 has "
      "other elements than rank 0: element 5 of the part is 1 on rank 0 and 2 on rank 1 "
      "(COCONET_CHECK)");
}

TEST_CASE("ranks that are threads may not share memory that one of them writes") {
  std::vector<float> common(elements, 1);
  check_outcomes(outcomes(2,
                          [&](World& world) {
                            Executable step = compile_step(world, false);
                            fill(step);
                            if (world.rank() == 0) {
                              step.bind("w", common);
                            } else {
                              step.bind("g", std::span<const float>(common));
                            }
                            step.run({{"lr", 0.5}});
                          }),
                 "BackendError",
                 "'w' of rank 0 shares memory with 'g' of rank 1, and the step writes there; bind "
                 "memory of its own to each (COCONET_CHECK)");
  // What nothing writes may be common.
  require_none(outcomes(2, [&](World& world) {
    Executable step = compile_step(world, false);
    fill(step);
    step.bind("mask", std::span<const float>(common));
    step.run({{"lr", 0.5}});
  }));
}

TEST_CASE("an index that is none is told, with its place, and steps with others go on") {
  const auto all = outcomes(2, [](World& world) {
    Program program("step", Mesh::over(world));
    const Value table = program.state("table", f32, {5, 2}, replicated);
    const Value tokens = program.input("tokens", i32, {4}, sliced(0));
    const Value labels = program.input("labels", i64, {4}, sliced(0));
    program.output("loss", cross_entropy(take(table, tokens), labels));
    Executable step = compile(program, Schedule("none"), world);
    const auto run = [&](const std::vector<std::int32_t>& of_tokens,
                         const std::vector<std::int64_t>& of_labels) {
      step.write_whole("tokens", of_tokens);
      step.write_whole("labels", of_labels);
      step.run({});
    };
    run({0, 4, 1, 2}, {0, 1, -100, 0});
    CHECK_THROWS_WITH(run({0, 4, 1, 5}, {0, 1, -100, 0}),
                      "input 'tokens' has 5 as element 1 of the part of rank 1; its elements are "
                      "from 0 to 4 (COCONET_CHECK)");
    CHECK_THROWS_WITH(run({0, 4, 1, 3}, {2, 1, -100, 0}),
                      "input 'labels' has 2 as element 0 of the part of rank 0; its elements are "
                      "from 0 to 1, or -100 (COCONET_CHECK)");
    run({3, 3, 3, 3}, {-100, -100, -100, -100});
    CHECK(step.scalar_of<float>("loss") == 0);
  });
  require_none(all);
}

TEST_CASE("with the check a rank that cannot run, or has other scalars, is heard of as ever") {
  std::vector<RankOutcome> wrong(2), other(2);
  require_none(outcomes(2, [&](World& world) {
    Executable step = compile_step(world);
    fill(step);
    wrong[world.rank()] = outcome_of([&] {
      if (world.rank() == 0) {
        step.run({{"lr", 0.5}});
      } else {
        step.run();
      }
    });
    other[world.rank()] = outcome_of([&] { step.run({{"lr", 0.5 + world.rank()}}); });
    step.run({{"lr", 0.5}});
  }));
  CHECK_THAT(wrong[0].what, StartsWith("rank 1 could not run the step, no rank did: "));
  CHECK_THAT(wrong[1].what, Contains("lr"));
  for (const RankOutcome& one : other)
    CHECK_THAT(one.what, StartsWith("all ranks must run a step with the same scalars, but rank 1"));
}
