// A rank that cannot run a step is heard of where the ranks first meet in it, which may be behind
// kernels that each runs for itself: nothing that the application sees is written before.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/comm_checks.h"
#include "jit/comm/rank_outcomes.h"
#include "refusal.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::int64_t n = 20;
constexpr float start = 4;

/// Steepest descent by s: a kernel of each rank's own rows, then one that begins with a total.
Executable compile_descent(const World& world, bool keeps_product) {
  Program program("descent", Mesh::over(world));
  const Dim d = program.dim("n");
  const Value a = program.input("A", f32, {d, d}, sliced(0));
  const Value x = program.state("x", f32, {d}, sliced(0));
  const Value p = program.state("p", f32, {d}, replicated);
  const Value s = program.scalar("s");
  const Value product = sum(a * p, {1}).named("product");
  if (keeps_product) program.output("product", product);
  const Value next = update(x, x + s * p / sum(p * product));
  update(p, all_gather(next - p).named("gathered"));
  Scheduler scheduler(program);
  scheduler.fuse("advance", {"x.new", "gathered", "p.new"});
  return compile(program, scheduler.schedule(), world, {{"n", n}});
}

}  // namespace

TEST_CASE("a kernel whose first pass only adds up begins with the totals, not with a barrier") {
  World::local(2, [](World& world) {
    const Executable step = compile_descent(world, false);
    const auto sources = step.sources();
    if (sources.size() != 2) throw InternalError("there are not two kernels");
    const std::string& text = sources.back().second;
    if (text.find("rank_barrier(block, a.sync, 0)") != std::string::npos ||
        text.find("grid_barrier(block, a.sync, a.totals, 1,") == std::string::npos ||
        text.find("rank_barrier(block, a.sync, 2)") == std::string::npos)
      throw InternalError("the barriers are others:\n" + text);
  });
}

TEST_CASE("a rank that cannot run is heard of behind kernels that each rank runs for itself") {
  // An output is written by such a kernel, too: the ranks then meet before it.
  for (const bool keeps_product : {false, true}) {
    INFO("the product is an output: " << keeps_product);
    std::vector<RankOutcome> wrong(3);
    const auto ends = outcomes_of(3, [&](World& world) {
      Executable step = compile_descent(world, keeps_product);
      step.write_whole("A", std::vector<float>(n * n, 1));
      for (int turn = 0; turn < 3; ++turn) {
        step.write_whole("x", std::vector<float>(n, start));
        step.write("p", std::vector<float>(n, 2));
        std::vector<float> product;
        if (keeps_product) product = elements_of(step, "product");
        // Rank 1 forgets the scalar in every other step.
        wrong[world.rank()] = outcome_of([&] {
          if (world.rank() == 1) {
            step.run();
          } else {
            step.run({{"s", 1.0}});
          }
        });
        world.barrier();
        if (elements_of(step, "x") != std::vector<float>(step.count("x"), start) ||
            elements_of(step, "p") != std::vector<float>(n, 2))
          throw InternalError("a state was touched");
        if (keeps_product && elements_of(step, "product") != product)
          throw InternalError("an output was touched");
        world.barrier();
        // p.Ap = 20 * 2 * 40, so that x becomes 4 + 1600 * 2 / 1600, and p that less 2.
        step.run({{"s", 1600.0}});
        if (elements_of(step, "x") != std::vector<float>(step.count("x"), 6) ||
            elements_of(step, "p") != std::vector<float>(n, 4))
          throw InternalError("the step after a refused one is wrong");
        world.barrier();
      }
    });
    for (const RankOutcome& end : ends) CHECK(end.what.empty());
    const std::string what = "scalar 's' is missing; give it to run, {{\"s\", value}}";
    CHECK(wrong[1].kind == "BackendError");
    CHECK_THAT(wrong[1].what, StartsWith(what));
    for (const std::size_t rank : {0U, 2U}) {
      CHECK(wrong[rank].kind == "CommError");
      CHECK_THAT(wrong[rank].what,
                 StartsWith("rank 1 could not run the step, no rank did: " + what));
    }
  }
}

namespace {

/// Checks that a run with `name` = 1, but 2 on rank 1, is refused on all ranks with a sentence that
/// says so, and that `unchanged` still holds then. Next runs go on.
void check_different_scalars(World& world, Executable& step, const std::string& name,
                             const std::function<bool()>& unchanged) {
  const std::string rule =
      "all ranks must run a step with the same scalars, but rank 1 has other scalars than rank 0; "
      "rank " +
      std::to_string(world.rank()) + " has " + name + "=" + (world.rank() == 1 ? "2" : "1");
  for (int turn = 0; turn < 2; ++turn) {
    const std::string told = refusal<CommError>([&] {
      step.run({{name, world.rank() == 1 ? 2 : 1}});
    });
    if (told != rule) throw InternalError("a rank was told: " + told);
    if (!unchanged()) throw InternalError("a state changed");
  }
}

}  // namespace

TEST_CASE("ranks that run a step with different scalars are told so before anything is written") {
  for (const char* schedule : {"fused", "sliced", "unfused"}) {
    INFO(schedule);
    REQUIRE_NOTHROW(World::local(3, [&](World& world) {
      Executable step = compile_shipped(world, "sgd", schedule, n);
      const auto is = [&](float value) {
        return elements_of(step, "w") == std::vector<float>(step.count("w"), value);
      };
      step.write("w", std::vector<float>(step.count("w"), start));
      step.write("g", std::vector<float>(step.count("g"), 1));
      check_different_scalars(world, step, "lr", [&] { return is(start); });
      step.run({{"lr", 1}});
      if (!is(start - 1)) throw InternalError("the next step went wrong");
    }));
  }
}

TEST_CASE("so are those that meet on the host before a step") {
  REQUIRE_NOTHROW(World::local(3, [](World& world) {
    Executable step = compile_descent(world, true);
    step.write_whole("A", std::vector<float>(n * n, 1));
    step.write("p", std::vector<float>(n, 2));
    step.write_whole("x", std::vector<float>(n, start));
    check_different_scalars(world, step, "s", [&] {
      return elements_of(step, "x") == std::vector<float>(step.count("x"), start);
    });
    step.run({{"s", 1}});
  }));
}
