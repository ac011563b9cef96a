// A rank that is lost inside a kernel with mailboxes, behind the point where all ranks agreed to
// run: those that wait for it give up and say for what. That it stops is planted in the kernel.
#include <catch2/catch.hpp>

#include "jit/platform/planted_compiler.h"
#include "sample.h"

using namespace coconet::test;

namespace {

/// Rank 1 does not look at its mailboxes before the others have given up.
constexpr std::string_view late_rank =
    R"(/^  DEVICE_MEMBER bool run/,/^  }/ s/^    const int rank = int(sync.rank);$/&)"
    R"( for (const u64 start = now(); rank == 1 \&\& now() - start < 3000000000u;) sched_yield();/)";

void require_told(const char* child, const std::string& environment = "") {
  const PlantedCompiler compiler(late_rank);
  const ChildOutput output =
      run_test_case(child, "COCONET_TIMEOUT_S=1 " + environment + compiler.environment());
  INFO(output.text);
  CHECK(output.code == 0);
}

/// Every second quick suite runs one of the cases with blocks of threads, which take many seconds
/// of all cores.
enum class Threads { none, lines, room };
Threads drawn() {
  return seed() % 2 == 1 ? Threads::none : seed() % 4 == 0 ? Threads::lines : Threads::room;
}

}  // namespace

TEST_CASE("who waits for a chunk of a rank that is lost says so") {
  require_told("no-message");
}

TEST_CASE("a team of threads that waits for a line of a rank that is lost gives up together") {
  if (!runs_all() && drawn() != Threads::lines) return;
  require_told("no-line", "COCONET_HOST_THREADS=32 ");
}

TEST_CASE("who waits for room at a rank that is lost says so") {
  require_told("no-room");
}

TEST_CASE("of a block's threads, those that wait for the rank that is lost say so") {
  if (!runs_all() && drawn() != Threads::room) return;
  require_told("no-room", "COCONET_HOST_THREADS=32 ");
}
