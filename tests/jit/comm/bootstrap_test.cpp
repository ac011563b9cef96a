// Worlds of a Bootstrap: its ranks are threads here, which find each other by a plain gather.
#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/meeting.h"
#include "jit/comm/worlds/introduction.h"
#include "on_threads.h"
#include "refusal.h"

using namespace coconet;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using coconet::test::Meeting;

namespace {

/// A Bootstrap of two ranks, of which the other answers with `other`.
Bootstrap beside(const std::string& other) {
  return {0, 2, [other](std::string_view mine) {
            return std::vector<std::string>{std::string(mine), other};
          }};
}

}  // namespace

TEST_CASE("ranks that a Bootstrap brings together run a fused kernel") {
  Meeting meeting(3);
  test::on_threads(3, [&](int rank) {
    const World world = World::from(meeting.of(rank));
    if (world.kind() != "bootstrap" || world.rank() != rank || world.size() != 3)
      throw std::runtime_error("the world is another");
    Program program("sum", Mesh::over(world));
    const Dim n = program.dim("n", 1000);
    program.output("y", all_reduce(program.input("x", f32, {n}, local), sum).named("total"));
    for (const Schedule& schedule : {Schedule(), Schedule().fuse("k", "all_reduce", {"total"})}) {
      Executable step = compile(program, schedule, world);
      const std::vector<float> x(1000, static_cast<float>(rank + 1));
      step.write("x", x);
      step.run();
      if (std::ranges::count(test::elements_of(step, "y"), 6.0f) != 1000)
        throw std::runtime_error("the sum is wrong");
    }
    world.barrier();
  });
}

TEST_CASE("a rank that lets go of its world is missed by its name") {
  Meeting meeting(2);
  std::string message;
  test::on_threads(2, [&](int rank) {
    const World world = World::from(meeting.of(rank), {.timeout = 10s});
    if (rank == 0) message = refusal<CommError>([&] { world.barrier(); });
  });
  CHECK_THAT(message, Contains("rank 1") && Contains("left"));
}

TEST_CASE("a rank that does not come is missed at the deadline of the world's options") {
  Meeting meeting(2);
  std::string message;
  test::on_threads(2, [&](int rank) {
    const World world = World::from(meeting.of(rank), {.timeout = 200ms});
    if (rank == 1) std::this_thread::sleep_for(1s);
    if (rank == 0) message = refusal<CommError>([&] { world.barrier(); });
  });
  CHECK_THAT(message, Contains("rank 1") && Contains("0.2"));
}

TEST_CASE("a wrong Bootstrap is refused in a sentence") {
  CHECK_THROWS_WITH(World::from({5, 2, beside("").all_gather}),
                    Contains("names rank 5 of 2 ranks; ranks are 0 to size - 1"));
  CHECK_THROWS_WITH(World::from({0, 1, {}}), Contains("has no all_gather"));
  CHECK_THROWS_WITH(
      World::from({0, 2, [](std::string_view) { return std::vector<std::string>{}; }}),
      Contains("returned 0 texts on rank 0 of 2; it must return one of each rank"));
  CHECK_THROWS_WITH(World::from({0, 2,
                                 [](std::string_view) {
                                   return std::vector<std::string>{"a", "b"};
                                 }}),
                    Contains("returned another text for rank 0 than that rank gave"));
  CHECK_THROWS_WITH(World::from(beside("elsewhere")),
                    Contains("must be on one node, where they share memory, and these are on 2") &&
                        Contains("rank 1 on elsewhere"));
}

TEST_CASE("what a Bootstrap's gather throws, World::from throws") {
  const Bootstrap failing{0, 2, [](std::string_view) -> std::vector<std::string> {
                            throw std::runtime_error("the launcher is gone");
                          }};
  CHECK_THROWS_WITH(World::from(failing), "the launcher is gone");
}

TEST_CASE("ranks with other settings are told before they share anything") {
  Meeting meeting(3);
  std::vector<std::string> said(3);
  test::on_threads(3, [&](int rank) {
    Options options;
    if (rank > 0) options.overlap = "off";
    said[rank] = refusal<CommError>([&] { (void)World::from(meeting.of(rank), options); });
  });
  for (const std::string& one : said) {
    CHECK(one ==
          "all ranks of a world must have the same settings, but ranks 1 and 2 have "
          "COCONET_OVERLAP=off, and rank 0 has COCONET_OVERLAP=auto");
  }
}

TEST_CASE("ranks with another version of the library are told first of all") {
  const std::string mine = jit::introduction(config());
  const std::string other = "coconet-jit 99.1.2\n" + mine.substr(mine.find('\n') + 1);
  const std::string both[] = {mine, mine, other};
  CHECK_THROWS_WITH(
      jit::require_alike(both),
      "all ranks of a world must have the same version of the library, but rank 2 has "
      "coconet-jit 99.1.2, and rank 0 has coconet-jit " +
          std::string(version()));
  CHECK_NOTHROW(jit::require_alike(std::span(both, 2)));
  const std::string empty[] = {mine, ""};
  CHECK_THROWS_WITH(jit::require_alike(empty), Contains("but rank 1 has nothing, and rank 0"));
}
