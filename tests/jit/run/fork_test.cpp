// A child of a fork has the parent's objects: their end there, and the child's exit, are nothing to
// the parent and to the other ranks.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "coconet/coconet.h"
#include "refusal.h"
#include "require_exit.h"
#include "texts.h"

using namespace coconet;

namespace {

/// The exit code of `child`; -1: a signal ended it. CTest's limit ends the test where it hangs.
int wait_for(pid_t child) {
  int status = 0;
  (void)waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Program sum_over(const World& world) {
  Program program("sum", Mesh::over(world));
  const Value total = all_reduce(program.input("x", f32, {10}, local), sum).named("total");
  program.output("y", (total * 2).named("twice"));
  return program;
}

/// A gather between a process and its child.
std::vector<std::string> gather(int to, int from, int rank, std::string_view mine) {
  const std::uint64_t bytes = mine.size();
  if (write(to, &bytes, sizeof bytes) != sizeof bytes ||
      write(to, mine.data(), bytes) != static_cast<ssize_t>(bytes))
    throw std::runtime_error("cannot write");
  std::uint64_t coming = 0;
  if (read(from, &coming, sizeof coming) != sizeof coming) throw std::runtime_error("cannot read");
  std::string other(coming, '\0');
  for (std::size_t have = 0; have < coming;) {
    const ssize_t got = read(from, other.data() + have, coming - have);
    if (got <= 0) throw std::runtime_error("cannot read");
    have += static_cast<std::size_t>(got);
  }
  return rank == 0 ? std::vector{std::string(mine), other} : std::vector{other, std::string(mine)};
}

/// A rank whose child ends what it has of the world: 0, or the number of what went wrong.
int be_rank(int rank, int to, int from) {
  auto world = std::make_unique<World>(
      World::from({rank, 2, [&](std::string_view mine) { return gather(to, from, rank, mine); }}));
  auto step = std::make_unique<Executable>(
      compile(sum_over(*world), Schedule().fuse("k", "all_reduce", {"total"}), *world));
  step->write("x", std::vector<float>(10, 1));
  step->run();
  const pid_t child = fork();
  if (child == 0) {
    const std::string told =
        refusal<CommError>([&] { world->barrier(); }) + refusal<CommError>([&] { step->run(); });
    const std::string expected = "this process is a fork of rank " + std::to_string(rank) +
                                 ", which alone takes part in its world";
    step.reset();
    world.reset();
    _exit(test::count_of(told, expected) == 2 ? 0 : 1);
  }
  if (wait_for(child) != 0) return 2;
  step->run();  // nobody has left
  world->barrier();
  return 0;
}

}  // namespace

TEST_CASE("a child of a fork takes no part in its parent's world, and ends without it") {
  std::array<int, 2> there{}, back{};
  REQUIRE(pipe(there.data()) == 0);
  REQUIRE(pipe(back.data()) == 0);
  const auto run_rank = [](int rank, int to, int from) {
    try {
      _exit(be_rank(rank, to, from));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      _exit(3);
    }
  };
  const pid_t first = fork();
  if (first == 0) run_rank(0, there[1], back[0]);
  const pid_t second = fork();
  if (second == 0) run_rank(1, back[1], there[0]);
  CHECK(wait_for(first) == 0);
  CHECK(wait_for(second) == 0);
  for (const int end : {there[0], there[1], back[0], back[1]}) close(end);
}

TEST_CASE("a process whose child exits", "[.][a-child-exits]") {
  const World world = World::self();
  Executable step = compile(sum_over(world), Schedule(), world);
  step.write("x", std::vector<float>(10, 1));
  step.run();
  const pid_t child = fork();
  if (child == 0) {
    step.run();  // a world of one rank has no others
    std::exit(0);
  }
  CHECK(wait_for(child) == 0);
}

TEST_CASE("a child of a fork that exits does not report for its parent") {
  const std::string said =
      test::require_exit(test::run_test_case("a-child-exits", "COCONET_LOG=info"));
  CHECK(test::count_of(said, "kernel cache: ") == 1);
}
