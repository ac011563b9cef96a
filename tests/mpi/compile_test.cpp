// Compiles LAMB, which has five kernels, on all ranks of an mpirun, each with a cache directory of
// its own. Every rank writes where its kernels came from, or what went wrong, to a file: rank 3 has
// the cache $CACHES/3 and writes $RESULTS/3. compile.sh looks at them.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "coconet/coconet.h"
#include "jit/kernels/kernel_store.h"
#include "shipped.h"

namespace {

using namespace coconet;

std::string outcome() {
  try {
    const World world = World::mpi();
    Executable lamb = test::compile_shipped(world, "lamb", "unfused", 1001);
    for (const char* name : {"g", "w", "m", "v"}) (void)lamb.data<float>(name);
    lamb.run({{"lr", 1e-3}, {"t", 1}});
    const CacheCounters cache = jit::cache_counters();
    return "memory " + std::to_string(cache.hit_memory) + " disk " +
           std::to_string(cache.hit_disk) + " peer " + std::to_string(cache.hit_peer) + " miss " +
           std::to_string(cache.miss);
  } catch (const Error& error) {
    return std::string("error ") + error.what();
  }
}

}  // namespace

TEST_CASE("ranks write where their kernels came from", "[.compile]") {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* caches = std::getenv("CACHES");
  const char* results = std::getenv("RESULTS");
  REQUIRE((rank != nullptr && caches != nullptr && results != nullptr));
  setenv("COCONET_CACHE_DIR", (std::string(caches) + "/" + rank).c_str(), 1);
  const std::string text = outcome();
  std::ofstream(std::string(results) + "/" + rank) << text << std::endl;
  if (!text.starts_with("error")) return;
  // The others may be on their way to the same end, which mpirun would cut short.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  _exit(3);
}
