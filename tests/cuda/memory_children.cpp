// The test of memory_test.cpp that needs another emulated GPU, in a process of its own.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "cuda/programs.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("mailboxes of a large GPU", "[.child][mailboxes-of-a-large-gpu]") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Knobs knobs;
    for (const char* protocol : {"simple", "ll"}) {
      knobs.algorithm = "ring";
      knobs.protocol = protocol;
      Executable step = compile(total(world, 1 << 22),
                                Schedule("total").fuse("k", "all_reduce", {"sum"}, knobs), world);
      const std::uint64_t bytes = step.report().kernels.front().exchange_bytes;
      if (bytes > 32 << 20 || bytes < 16 << 20)
        throw InternalError(std::to_string(bytes) + " bytes of mailboxes");
    }
  }));
}
