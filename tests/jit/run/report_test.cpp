// What a report says of steps: what binds them, which are slow, and which do nothing. And what the
// log says of the making of an executable.
#include <algorithm>
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/require_on_rank.h"
#include "jit/config/log.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Contains;

TEST_CASE("a large matmul is bound by arithmetic, and a slow step is marked") {
  const World world = World::self();
  Program program("product", Mesh::over(world));
  const Value a = program.input("a", f32, {512, 512}, replicated);
  program.output("c", matmul(a, a).named("c"));
  Executable step = compile(program, Schedule("none"), world, {});
  (void)step.data<float>("a");
  for (int run = 0; run < 3; ++run) step.run({});
  const Report report = step.report();
  REQUIRE(report.kernels.size() == 1);
  CHECK(report.kernels[0].bound == "arithmetic");
  CHECK(report.kernels[0].roofline_share > 0);
  CHECK(report.kernels[0].roofline_share < 10);
  CHECK(report.bytes == report.kernels[0].bytes);
  CHECK(report.roofline_share * report.ms ==
        Approx(report.kernels[0].roofline_share * report.kernels[0].ms));
  CHECK_THAT(report.str(), Contains("% of bounds   median of 3 runs"));

  KernelReport kernel = report.kernels[0];
  kernel.ms = 2;
  const auto shown = [&](double share) {
    kernel.roofline_share = share;
    Report of_kernel;
    of_kernel.kernels = {kernel};
    return of_kernel.str();
  };
  CHECK_THAT(shown(0.29),
             Contains("29% of arithmetic              0   slow: below 30 % of what a product"));
  kernel.bound = "memory";
  CHECK_THAT(shown(0.29), Contains("slow: below 30 % of what a copy"));
  CHECK_THAT(shown(0.3), !Contains("slow"));
  kernel.ms = 0.09;
  CHECK_THAT(shown(0.29), !Contains("slow"));
}

TEST_CASE("a report says over how many cores a rank spreads its kernels") {
  const World world = World::self({.cores = 2});
  Program program("twice", Mesh::over(world));
  program.output("y", program.input("x", f32, {64}, replicated) * 2);
  const auto report = [&](const Options& options) {
    Executable step = compile(program, Schedule("none"), world, {}, {}, options);
    (void)step.data<float>("x");
    step.run({});
    return step.report();
  };
  CHECK(report({}).cores == 2);
  CHECK_THAT(report({}).str(), Contains("median of 1 runs, 2 cores a rank\n"));
  CHECK(report({.cores = 1}).cores == 1);
  CHECK_THAT(report({.cores = 1}).str(), Contains("median of 1 runs\n"));
}

/// A sum over both ranks of the mesh by a kernel, after or before one over a single rank.
Program sum_with_one_alone(bool alone_first) {
  Program program("alone", Mesh({{"dp", 2}, {"tp", 1}}));
  Value value = program.input("x", f32, {4}, local);
  if (alone_first) value = all_reduce(value, sum, "tp").named("alone");
  value = all_reduce(value, sum, "dp").named("total");
  if (!alone_first) value = all_reduce(value, sum, "tp").named("alone");
  program.output("y", value);
  return program;
}

TEST_CASE("a collective over one rank copies only to or from memory that the application binds") {
  for (const bool alone_first : {false, true}) {
    for (const bool binds : {false, true}) {
      REQUIRE_NOTHROW(World::local(2, [&](World& world) {
        Executable step = compile(sum_with_one_alone(alone_first),
                                  Schedule().fuse("k", "all_reduce", {"total"}), world, {});
        std::vector<float> in(4, 1), out(4);
        if (binds && alone_first) {
          step.bind("x", std::span(in));
        } else {
          std::ranges::copy(in, step.data<float>("x").begin());
        }
        if (binds && !alone_first) step.bind("y", std::span(out));
        step.run({});
        REQUIRE_ON_RANK(elements_of(step, "y") == std::vector<float>(4, 2));
        const Report report = step.report();
        REQUIRE_ON_RANK(report.kernels.size() == 2);
        const KernelReport& alone = report.kernels[alone_first ? 0 : 1];
        REQUIRE_ON_RANK(alone.kind == "library");
        REQUIRE_ON_RANK(alone.bytes == (binds ? 32U : 0U));
      }));
    }
  }
}

TEST_CASE("the log says at level debug how long each step of binding a plan took") {
  const World world = World::self();
  std::vector<std::string> steps;
  REQUIRE(jit::set_log_level("debug"));
  set_log_sink([&](LogLevel level, std::string_view message) {
    const std::size_t end = message.find(" in ");
    if (level != LogLevel::debug || !message.starts_with("bound ") || end == message.npos) return;
    CHECK_THAT(std::string(message), Catch::EndsWith(" ms"));
    steps.emplace_back(message.substr(6, end - 6));
  });
  const Executable step = compile(programs::sgd(Mesh::over(world)), Schedule("none"), world, {});
  set_log_sink({});
  REQUIRE(jit::set_log_level("warn"));
  CHECK(steps == std::vector<std::string>{"the plan of this rank", "barriers", "tensors", "kernels",
                                          "grids", "overlaps", "steps"});
}
