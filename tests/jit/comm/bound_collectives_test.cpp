// Library collectives of memory that the application binds, which no other rank reaches, and of the
// library's own, of every size, in each kind of world that a process makes without MPI. MPI's are
// in tests/mpi.
#include <catch2/catch.hpp>
#include <functional>

#include "coconet/coconet.h"
#include "jit/comm/access.h"
#include "jit/comm/checks_16_bit.h"
#include "jit/comm/collectives/direct_collectives.h"
#include "jit/comm/comm_checks.h"
#include "jit/comm/meeting.h"
#include "jit/comm/worlds/cores.h"
#include "on_threads.h"
#include "require_exit.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// Called by each rank of a world.
using Body = std::function<void(World& world)>;

void in_self(const Body& body) {
  World world = World::self();
  body(world);
}

void in_local(const Body& body) {
  World::local(3, body);
}

void in_bootstrap(int ranks, const Body& body) {
  Meeting meeting(ranks);
  on_threads(ranks, [&](int rank) {
    World world = World::from(meeting.of(rank));
    body(world);
    world.barrier();
  });
}

/// The last of the ranks leaves before the others run `body` in the world of those that are left.
void without_the_last(World& world, const Body& body) {
  try {
    world.barrier();
  } catch (const CommError&) {
    World next = world.shrink();
    expect(next.size() == world.size() - 1, "the others make the next world");
    body(next);
    next.barrier();
    return;
  }
  throw std::runtime_error("nobody missed the rank that left");
}

void in_shrunk_local(const Body& body) {
  World::local(3, [&](World& world) {
    if (world.rank() < 2) without_the_last(world, body);
  });
}

void in_shrunk_bootstrap(const Body& body) {
  Meeting meeting(4);
  on_threads(4, [&](int rank) {
    World world = World::from(meeting.of(rank));
    if (rank < 3) without_the_last(world, body);
  });
}

struct Kind {
  const char* name;
  std::function<void(const Body&)> run;
};
const Kind kinds[] = {
    {"self", in_self},
    {"local", in_local},
    {"bootstrap of 2", [](const Body& body) { in_bootstrap(2, body); }},
    {"bootstrap of 3", [](const Body& body) { in_bootstrap(3, body); }},
    {"local, shrunk", in_shrunk_local},
    {"bootstrap, shrunk", in_shrunk_bootstrap},
};

constexpr std::size_t always = jit::CollectiveWays::always;
/// Those of near and of far cores, and the ends of each.
const jit::CollectiveWays all_ways[] = {{}, {always, 4 << 10}, {0, 0}, {always, always}};

/// `elements` shared out among `ranks`, evenly or nearly all to one of them.
std::vector<std::size_t> shares(std::size_t elements, std::size_t ranks, bool evenly) {
  std::vector<std::size_t> counts(ranks, evenly ? elements / ranks : 1);
  counts[ranks / 2] = elements - (ranks - 1) * counts[(ranks / 2 + 1) % ranks] * (ranks > 1);
  return counts;
}

void check_sizes(World& world) {
  jit::Comm& comm = jit::comm_of(world);
  Group group(comm);
  constexpr std::size_t capacity = jit::DirectCollectives::capacity;
  bool is_first = true;
  // Whatever their dtype, the bytes of all blocks are around the bounds of the ways.
  const auto check = [&](std::size_t bytes, DType dtype, Reduction reduction, bool evenly) {
    const std::size_t elements = bytes / size_of(dtype);
    const std::vector<std::size_t> counts =
        shares(elements, static_cast<std::size_t>(comm.size()), evenly);
    check_collectives(group, counts, dtype, reduction);
    if (!is_first) return;
    const auto own = comm.allocate(2 * bytes);
    check_collectives(group, counts, dtype, reduction, own->base(comm.rank()),
                      own->base(comm.rank()) + bytes);
  };
  for (const jit::CollectiveWays& ways : all_ways) {
    comm.set_ways(ways);
    for (const std::size_t bytes : {std::size_t{32} << 10, capacity}) {
      if (is_first) check(bytes, f32, Reduction::sum, true);
      check(bytes + 4, f32, Reduction::sum, true);
    }
    check(2 * capacity + 12, f32, Reduction::sum, false);
    if (is_first) check(capacity + 6, f16, Reduction::mean, true);
    if (is_first) check(capacity + 16, f64, Reduction::max, false);
    if (comm.size() == 1) return;
    is_first = false;
  }
}

}  // namespace

TEST_CASE("library collectives of memory of any kind and size are right in every kind of world") {
  for (const Kind& kind : kinds) {
    INFO(kind.name);
    CHECK_NOTHROW(kind.run(check_sizes));
  }
}

TEST_CASE("an unfused step of large vectors that are bound is right in every kind of world") {
  const auto run = [](World& world) {
    for (const std::int64_t n : {65536, 65537, 200001}) {
      Program program("sum", Mesh::over(world));
      const Value x = program.input("x", f32, {program.dim("n")}, local);
      const Value total = all_reduce(x, sum).named("total");
      program.output("total", total);
      program.output("part", reduce_scatter(x, sum).named("part"));
      program.output("whole", all_gather(slice(total, 0).named("slice")).named("whole"));
      Executable step = compile(program, Schedule(), world, {{"n", n}});
      const auto count = static_cast<std::size_t>(n);
      std::vector<float> in(count, static_cast<float>(world.rank() + 1)), out(count), whole(count);
      std::vector<float> part(step.count("part"));
      step.bind("x", in);
      step.bind("total", out);
      step.bind("part", part);
      step.bind("whole", whole);
      step.run();
      const float expected = static_cast<float>(world.size() * (world.size() + 1)) / 2;
      expect(out == std::vector<float>(count, expected), "the sum");
      expect(part == std::vector<float>(part.size(), expected), "a slice of it");
      expect(whole == out, "all slices");
    }
  };
  for (const Kind& kind : kinds) {
    INFO(kind.name);
    CHECK_NOTHROW(kind.run(run));
  }
}

TEST_CASE("collectives go through copies between cores that are far from each other") {
  using jit::CollectiveWays;
  // Microseconds of 64 KiB on two cores of an AMD EPYC, wherever its host had put them.
  CHECK(jit::ways_for({.cached = 33.7, .past_caches = 7.7, .local = 1.5}) ==
        CollectiveWays{always, 4 << 10});
  CHECK(jit::ways_for({.cached = 8.9, .past_caches = 7.2, .local = 1.5}) == CollectiveWays());
  CHECK(jit::ways_for({.cached = 2.4, .past_caches = 9.4, .local = 1.5}) == CollectiveWays());
  CHECK(jit::ways_for({}) == CollectiveWays());
}

TEST_CASE("a group finds its ways where each rank has a core, and says them") {
  const std::string said = require_exit(run_command(
      "run adam --schedule unfused --set n=100 --world local:2 --iters 1", "COCONET_LOG=debug"));
  const std::vector<jit::Cores> cores(2, jit::available_cores());
  CHECK((said.find("collectives of 2 ranks: 64 KiB take ") != std::string::npos) ==
        (jit::ranks_per_core(cores) == 1));
}

TEST_CASE("16-bit floats are added in f32 and rounded once where the application joins the ranks") {
  REQUIRE_NOTHROW(in_bootstrap(3, [](World& world) { check_16_bit(jit::comm_of(world)); }));
}
