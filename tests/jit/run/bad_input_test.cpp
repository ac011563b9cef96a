// What an application can do wrong with a compiled step: an exception with the right sentence on
// every rank, no state touched, no hang, and the same executable runs once the mistake is mended.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "refusal.h"
#include "require_exit.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::int64_t n = 17;
constexpr float start = 4;

Executable compile_adam(const World& world, const std::string& schedule) {
  return compile_shipped(world, "adam", schedule, n);
}

bool all_equal(std::span<const float> data, float value) {
  return std::ranges::count(data, value) == std::ssize(data);
}

/// What one rank does wrong, and how that is mended.
struct Mistake {
  std::string what;     ///< the start of the sentence
  bool binds_g = true;  ///< else it leaves out the input
  std::vector<ScalarValue> scalars = {{"lr", 1.0}, {"t", 1.0}};
};

/// Rank 1 of three makes the mistake in its first step and in its third; the second and the last
/// are right.
void require_step_fails_everywhere(const Mistake& mistake) {
  for (const char* schedule : {"fused", "sliced", "unfused"}) {
    INFO("schedule " << schedule << ", " << mistake.what);
    std::vector<RankOutcome> first(3);
    std::vector<RankOutcome> later(3);
    const auto ends = outcomes_of(3, [&](World& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      Executable step = compile_adam(world, schedule);
      const bool wrong = world.rank() == 1;
      if (!wrong || mistake.binds_g) std::ranges::fill(step.data<float>("g"), 1);
      std::ranges::fill(step.data<float>("w"), start);
      std::ranges::fill(step.data<float>("m"), start);
      std::ranges::fill(step.data<float>("v"), start);
      const auto untouched = [&] {
        for (const char* name : {"w", "m", "v"}) {
          if (!all_equal(step.data<float>(name), start))
            throw InternalError(std::string(name) + " was touched");
        }
      };
      first[rank] = outcome_of([&] { step.run(wrong ? mistake.scalars : Mistake().scalars); });
      world.barrier();
      untouched();
      world.barrier();
      std::ranges::fill(step.data<float>("g"), 1);
      step.run({{"lr", 0.0}, {"t", 1.0}});
      world.barrier();
      if (!all_equal(step.data<float>("w"), start))
        throw InternalError("w changed at learning rate 0");
      if (all_equal(step.data<float>("m"), start)) throw InternalError("m was not updated");
      world.barrier();
      if (mistake.binds_g) {
        const float before = step.data<float>("m").empty() ? 0 : step.data<float>("m")[0];
        later[rank] = outcome_of([&] { step.run(wrong ? mistake.scalars : Mistake().scalars); });
        world.barrier();
        if (!all_equal(step.data<float>("m"), before))
          throw InternalError("m was touched by the later mistake");
        step.run({{"lr", 1.0}, {"t", 2.0}});
      }
    });
    for (const RankOutcome& end : ends) CHECK(end.what.empty());
    for (const auto* outcomes : {&first, &later}) {
      if (outcomes == &later && !mistake.binds_g) continue;
      CHECK((*outcomes)[1].kind == "BackendError");
      CHECK_THAT((*outcomes)[1].what, StartsWith(mistake.what));
      for (const std::size_t rank : {0U, 2U}) {
        CHECK((*outcomes)[rank].kind == "CommError");
        CHECK_THAT((*outcomes)[rank].what,
                   StartsWith("rank 1 could not run the step, no rank did: " + mistake.what));
      }
    }
  }
}

/// How `body` is refused on the first of two ranks, where it does nothing collective.
std::string bind_refusal(const std::string& schedule,
                         const std::function<void(Executable&)>& body) {
  std::string said;
  World::local(2, [&](World& world) {
    Executable step = compile_adam(world, schedule);
    if (world.rank() == 0) said = refusal<BackendError>([&] { body(step); });
    world.barrier();
  });
  return said;
}

}  // namespace

TEST_CASE("a missing binding on one rank fails the step on every rank") {
  require_step_fails_everywhere(
      {"'g', 17 x f32 on rank 1, has no memory; bind data to it, write it, or fill "
       "Executable::data(\"g\")",
       false});
}

TEST_CASE("one memory cannot be two tensors' of which one is written") {
  const auto outcomes = outcomes_of(2, [](World& world) {
    Executable step = compile_adam(world, "unfused");
    std::vector<float> memory(4 * n);
    const std::span all(memory);
    step.bind("g", all.subspan(0, n));
    step.bind("w", all.subspan(n - 1, n));
    const RankOutcome outcome = outcome_of([&] { step.run(Mistake().scalars); });
    world.barrier();
    step.bind("w", all.subspan(n, n));
    step.run(Mistake().scalars);
    if (outcome.kind != "BackendError") throw InternalError("it was taken");
    throw BackendError(outcome.what);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(outcomes[rank].what ==
          "'w', 17 x f32 on rank " + std::to_string(rank) +
              ", shares memory with 'g': a step that writes one of them would change the other; "
              "bind memory of its own to each");
  }
}

TEST_CASE("states that nothing is bound to are in the library's memory, zeroed") {
  World::local(2, [](World& world) {
    for (const std::string schedule : {"unfused", "fused"}) {
      Executable step = compile_adam(world, schedule);
      std::ranges::fill(step.data<float>("g"), 1.0f);
      step.run({{"lr", 1.0}, {"t", 1.0}});
      if (std::abs(elements_of(step, "m").front() - 0.1f) > 1e-6f ||
          std::abs(elements_of(step, "w").front() + 1) > 1e-3f)
        throw InternalError("a state did not begin with zeros");
    }
  });
}

TEST_CASE("an unknown scalar on one rank fails the step on every rank") {
  require_step_fails_everywhere({"there is no scalar 'momentum'; the program takes lr, t",
                                 true,
                                 {{"lr", 1.0}, {"t", 1.0}, {"momentum", 1.0}}});
}

TEST_CASE("a missing scalar on one rank fails the step on every rank") {
  require_step_fails_everywhere(
      {"scalar 't' is missing; give it to run, {{\"t\", value}}", true, {{"lr", 1.0}}});
}

TEST_CASE("a scalar given twice on one rank fails the step on every rank") {
  require_step_fails_everywhere(
      {"scalar 't' is given twice; give it once", true, {{"lr", 1.0}, {"t", 1.0}, {"t", 2.0}}});
  require_step_fails_everywhere(
      {"scalar 'lr' is given twice; give it once", true, {{"lr", 1.0}, {"lr", 1.0}}});
}

TEST_CASE("an offset of dropout that is no whole number is refused when the step runs") {
  const World world = World::self();
  Program program("masked", Mesh::over(world));
  const Value x = program.state("x", f32, {3}, replicated);
  update(x, dropout(x, 0.5, 1, program.scalar("t") - 1).named("d"));
  Executable step = compile(program, Schedule(), world);
  (void)step.data<float>("x");
  step.run({{"t", 1}});
  CHECK_THROWS_WITH(step.run({{"t", 0}}),
                    "dropout 'd' has the offset 'subtract_3' = -1; it must be a whole number from "
                    "0 to 2^53, such as the number of the step");
  CHECK_THROWS_WITH(step.run({{"t", 1.25}}), Catch::Contains("= 0.25; it must be a whole number"));
}

TEST_CASE("matrices that BLAS libraries cannot count are refused with their sizes") {
  const World world = World::self();
  Program program("long", Mesh::over(world));
  const Dim k = program.dim("k");
  const Value a = program.input("a", f32, {1, k}, replicated);
  program.output("y", matmul(a, a, false, true).named("y"));
  CHECK_THROWS_WITH((void)compile(program, Schedule(), world, {{"k", std::int64_t{1} << 31}}),
                    "matmul 'y' multiplies matrices of 1 x 2147483648 and 2147483648 x 1; BLAS "
                    "libraries count to 2147483647");
}

TEST_CASE("a program without scalars says so") {
  const World world = World::self();
  Program program("none", Mesh::over(world));
  const Value x = program.state("x", f32, {3}, replicated);
  update(x, x + 1);
  Executable step = compile(program, Schedule(), world);
  (void)step.data<float>("x");
  CHECK_THROWS_WITH(step.run({{"lr", 1}}), "there is no scalar 'lr'; the program has none");
}

TEST_CASE("a binding of a wrong size says how many elements the layout takes") {
  std::vector<float> data(16);
  CHECK(bind_refusal("sliced", [&](Executable& step) { step.bind("w", data); }) ==
        "'w', 17 x f32 on rank 0, is given 16 elements; its layout is replicated, so give 17");
  CHECK_THAT(bind_refusal("sliced", [&](Executable& step) { step.bind("m", data); }),
             StartsWith("'m', 9 x f32 on rank 0, is given 16 elements; its layout is sliced(0)"));
}

TEST_CASE("a binding of a wrong dtype says which is right") {
  std::vector<double> data(17);
  const std::string sentence = "'w', 17 x f32 on rank 0, is used as f64; use it as f32";
  CHECK(bind_refusal("sliced", [&](Executable& step) { step.bind("w", data); }) == sentence);
  CHECK(bind_refusal("sliced", [](Executable& step) { (void)step.data<double>("w"); }) == sentence);
  CHECK(bind_refusal("sliced", [](Executable& step) { (void)step.data("w", f64); }) == sentence);
}

TEST_CASE("memory that is not aligned to its elements is refused") {
  alignas(8) std::byte bytes[100];
  CHECK(bind_refusal("sliced", [&](Executable& step) { step.bind("w", f32, bytes + 2, 17); }) ==
        "'w', 17 x f32 on rank 0, is bound to memory that is not aligned to its 4-byte elements");
}

TEST_CASE("a null pointer is refused") {
  void* const nowhere = nullptr;
  CHECK(bind_refusal("sliced", [&](Executable& step) { step.bind("w", f32, nowhere, 17); }) ==
        "'w', 17 x f32 on rank 0, is bound to a null pointer");
}

TEST_CASE("an unknown name is answered with the nearest, or with all") {
  const auto what = [](const char* name) {
    return bind_refusal("fused", [&](Executable& step) { (void)step.count(name); });
  };
  CHECK(what("ww") == "program 'adam' has no input, state or output 'ww'; did you mean 'w'?");
  CHECK(what("gradient") ==
        "program 'adam' has no input, state or output 'gradient'; it has g, m, v, w");
  CHECK_THAT(bind_refusal("fused", [](Executable& step) { (void)step.data<float>("x1"); }),
             Contains("has no input, state or output 'x1'"));
}

TEST_CASE("a Buffer of a wrong size or dtype, and an empty one, are refused") {
  std::vector<RankOutcome> small(2), narrow(2), empty(2), as(2);
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = compile_adam(world, "fused");
    const auto rank = static_cast<std::size_t>(world.rank());
    const Buffer four = world.allocate(f32, 4);
    const Buffer half = world.allocate(f16, 17);
    small[rank] = outcome_of([&] { step.bind("w", four); });
    narrow[rank] = outcome_of([&] { step.bind("w", half); });
    empty[rank] = outcome_of([&] { step.bind("w", Buffer()); });
    as[rank] = outcome_of([&] { (void)half.as<float>(); });
    world.barrier();
  }));
  CHECK(small[1].what ==
        "'w', 17 x f32 on rank 1, is given 4 elements; its layout is replicated, so give 17");
  CHECK(narrow[1].what == "'w', 17 x f32 on rank 1, is used as f16; use it as f32");
  CHECK(empty[1].what == "'w' is bound to an empty Buffer; allocate one");
  CHECK(as[1].kind == "BackendError");
}

TEST_CASE(
    "ranks that compile different programs, schedules or sizes are all told which rank differs") {
  const auto compile_differently = [](const std::string& part) {
    return outcomes_of(4, [&](World& world) {
      const bool differs = world.rank() == 2 || (part == "two programs" && world.rank() == 3);
      const Mesh mesh = Mesh::over(world);
      const bool other_program = differs && part.ends_with("programs");
      const std::string schedule = differs && part == "schedule" ? "sliced" : "fused";
      const std::int64_t extent = differs && part == "sizes" ? 18 : 17;
      (void)compile(other_program ? programs::adamw(mesh) : programs::adam(mesh),
                    Schedule::load("adam-" + schedule + ".json"), world, {{"n", extent}});
    });
  };
  const auto require_all = [&](const std::string& part, const std::string& sentence,
                               const std::vector<std::string>& have) {
    const auto outcomes = compile_differently(part);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      CHECK(outcomes[rank].kind == "CommError");
      CHECK_THAT(outcomes[rank].what, StartsWith(sentence + " than rank 0; rank " +
                                                 std::to_string(rank) + " has " + have[rank]));
    }
  };
  require_all("programs", "all ranks must compile the same, but rank 2 has another program",
              {"program 'adam'", "program 'adam'", "program 'adamw'", "program 'adam'"});
  require_all("two programs",
              "all ranks must compile the same, but ranks 2, 3 have another program",
              {"program 'adam'", "program 'adam'", "program 'adamw'", "program 'adamw'"});
  require_all("schedule", "all ranks must compile the same, but rank 2 has another schedule",
              {"schedule 'adam-fused': split op=avg; ", "schedule 'adam-fused': split",
               "schedule 'adam-sliced': split", "schedule 'adam-fused': split"});
  require_all("sizes", "all ranks must compile the same, but rank 2 has other sizes",
              {"sizes n=17", "sizes n=17", "sizes n=18", "sizes n=17"});
}

TEST_CASE("sizes that are missing, not positive or unknown are refused on every rank") {
  const auto what = [](const Sizes& sizes) {
    const auto outcomes = outcomes_of(2, [&](World& world) {
      Program program("sized", Mesh::over(world));
      const Dim m = program.dim("m");
      const Value x = program.state("x", f32, {m}, replicated);
      update(x, x + 1);
      (void)compile(program, Schedule(), world, sizes);
    });
    check_outcomes(outcomes, "ProgramError", outcomes[0].what);
    return outcomes[0].what;
  };
  CHECK_THAT(what({}), Contains("'m'"));
  CHECK_THAT(what({{"m", 0}}), Contains("'m'") && Contains("0"));
  CHECK_THAT(what({{"m", -3}}), Contains("'m'") && Contains("-3"));
  CHECK_THAT(what({{"m", 3}, {"k", 3}}), Contains("'k'"));
}

TEST_CASE("a program for another number of ranks is refused on every rank") {
  const auto outcomes = outcomes_of(2, [](World& world) {
    (void)compile(programs::sgd(Mesh({{"world", 4}})), Schedule(), world, {{"n", 4}});
  });
  check_outcomes(outcomes, "ProgramError",
                 "program 'sgd' is written for 4 ranks, mesh {world: 4}, but the world has 2; use "
                 "Mesh::over(world), or start that many ranks");
}

TEST_CASE(
    "a mistake that one rank makes alone in compile reaches all ranks, and the next compile "
    "works") {
  const auto outcomes = outcomes_of(3, [](World& world) {
    const Program program = programs::sgd(Mesh::over(world));
    Schedule schedule("mine");
    if (world.rank() == 1) schedule.split("average");
    const RankOutcome first = outcome_of([&] {
      (void)compile(program, schedule, world, {{"n", 4}});
    });
    Executable step = compile(program, Schedule(), world, {{"n", 4}});
    (void)step.data<float>("g");
    (void)step.data<float>("w");
    step.run({{"lr", 1}});
    if (first.kind == "ScheduleError") throw ScheduleError(first.what);
    throw CommError(first.what);
  });
  CHECK(outcomes[1].kind == "ScheduleError");
  CHECK_THAT(outcomes[1].what, Contains("'average'"));
  for (const std::size_t rank : {0U, 2U}) {
    CHECK(outcomes[rank].kind == "CommError");
    CHECK(outcomes[rank].what == "rank 1: " + outcomes[1].what);
  }
}

TEST_CASE(
    "a kernel that does not compile is an error with command, log, op and source on every rank") {
  const ScratchDirectory scratch;
  (void)require_exit(
      run_test_case("does-not-compile",
                    "COCONET_CACHE=off COCONET_CXXFLAGS=-Dcurved=no_such::name COCONET_DUMP_DIR='" +
                        scratch.path().string() + "'"));
}

TEST_CASE("a machine without the compiler is an error on every rank") {
  (void)require_exit(run_test_case("no-compiler", "COCONET_CXX=/no/such/compiler"));
}

TEST_CASE("the command says that there is no compiler and exits with failure") {
  CHECK_THAT(
      require_exit(run_command("run adam --schedule fused --set n=8 --world local:2",
                               "COCONET_CXX=/no/such"),
                   1),
      Contains(
          "COCONET_CXX is '/no/such'; there is no such program, set it to a C++20 compiler such "
          "as g++ or clang++."));
}

TEST_CASE("a kernel that does not compile ends the command with the same words") {
  const ScratchDirectory scratch;
  const std::string said = require_exit(
      run_command("run adam --schedule fused --set n=8 --world local:2",
                  "COCONET_CACHE=off COCONET_CXXFLAGS=-Dadam_fused_kernel_block=no_such::name "
                  "COCONET_DUMP_DIR='" +
                      scratch.path().string() + "'"),
      1);
  CHECK_THAT(said, Contains("kernel 'adam_fused' does not compile") && Contains("\ncommand: ") &&
                       Contains("\nsource: " + scratch.path().string()) &&
                       Contains("\nthe compiler says:\n"));
}

TEST_CASE("a rank that is late for a step is named by those that wait") {
  (void)require_exit(run_test_case("late-rank", "COCONET_TIMEOUT_S=1"));
}

TEST_CASE("ranks wait for a slow compiler for as long as it may take") {
  const ScratchDirectory scratch;
  const std::filesystem::path slow = scratch.path() / "slow-compiler";
  std::ofstream(slow) << "#!/bin/sh\nsleep 2\nexec '" << config().cxx << "' \"$@\"\n";
  std::filesystem::permissions(slow, std::filesystem::perms::owner_all);
  const std::string command = "run adam --schedule fused --set n=8 --world local:2 --iters 1";
  const std::string environment =
      "COCONET_CACHE=off COCONET_TIMEOUT_S=1 COCONET_CXX='" + slow.string() + "' ";
  (void)require_exit(run_command(command, environment));
  CHECK_THAT(require_exit(run_command(command, environment + "COCONET_COMPILE_TIMEOUT_S=0.5"), 1),
             Contains("500 ms") && Contains("COCONET_COMPILE_TIMEOUT_S"));
}
