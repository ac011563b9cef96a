// Executables that share states, and that change their extents, on all ranks of an mpirun.
#include <catch2/catch.hpp>

#include "jit/kernels/kernel_store.h"
#include "jit/run/state_checks.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("two executables of an MPI world that share states alternate for 1,000 steps") {
  const World world = World::mpi();
  for (const bool train_owns : {true, false})
    REQUIRE_NOTHROW(check_alternation(world, 1000, train_owns));
}

TEST_CASE("1,000 resizes of an MPI world compile nothing and do not grow") {
  const World world = World::mpi();
  for (const bool fused : {false, true}) {
    INFO((fused ? "fused" : "unfused"));
    (void)compile_rows(world, 2, fused);
    const CacheCounters before = jit::cache_counters();
    std::string grown;
    REQUIRE_NOTHROW(grown = growth_of_resizes(world, 1000, fused));
    CHECK(grown == "");
    const CacheCounters after = jit::cache_counters();
    CHECK(after.miss == before.miss);
    CHECK(after.hit_disk == before.hit_disk);
    CHECK(after.hit_memory - before.hit_memory <= 4);  // by the one compilation
  }
}
