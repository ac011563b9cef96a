// A rank that is lost inside a kernel with mailboxes, behind the point where all ranks agreed to
// run: those that wait for it give up and say for what. That it stops is planted in the kernel.
#include <catch2/catch.hpp>

#include "jit/platform/planted_compiler.h"
#include "require_exit.h"
#include "sample.h"

using namespace coconet::test;

namespace {

/// Rank 1 does not look at its mailboxes before the others, which wait for a second, have given up
/// and had another second to answer.
constexpr std::string_view late_rank =
    R"(1 s/^/extern "C" int usleep(unsigned); /; )"
    R"(/^  DEVICE_MEMBER bool run/,/^  }/ s/^    const int rank = int(sync.rank);$/&)"
    R"( for (const u64 start = now(); rank == 1 \&\& now() - start < 6000000000u;))"
    R"( usleep(1000);/)";

/// Rank 1 begins when rank 0 already waits for it. Between a look of rank 0 for its data and one
/// for a notice of it rank 1 sends and leaves, as may happen where a core is busy.
constexpr std::string_view leaving_rank =
    R"(/^  DEVICE_MEMBER bool run/,/^  }/ s/^    const int rank = int(sync.rank);$/&)"
    R"( for (const u64 start = now(); rank == 1 \&\& now() - start < 200000000u;) sched_yield();/;)"
    R"(/^DEVICE bool wait_until/,/^}/ s/^      gives_up = give_up(started);$/)"
    R"( for (const u64 start = now(); sync.rank == 0)"
    R"( \&\& load_relaxed(sync.notices + sync.notice_stride) == 0)"
    R"( \&\& now() - start < 60000000000u;) sched_yield(); &/)";

/// Rank 1 gives up rank 0 before any other begins.
constexpr std::string_view others_begin_late =
    R"(/^  DEVICE_MEMBER bool run/,/^  }/ s/^    const int rank = int(sync.rank);$/&)"
    R"( for (const u64 start = now(); rank != 1)"
    R"( \&\& load_relaxed(sync.notices + sync.notice_stride) == 0)"
    R"( \&\& now() - start < 60000000000u;) sched_yield();/)";

void require_told(const char* child, const std::string& environment = "",
                  std::string_view plant = late_rank) {
  const PlantedCompiler compiler(plant);
  (void)require_exit(
      run_test_case(child, "COCONET_TIMEOUT_S=1 " + environment + compiler.environment()));
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

TEST_CASE("so does who waits on one of several cores of a rank") {
  require_told("no-message", "COCONET_CORES=2 COCONET_CHANNELS=2 ");
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

TEST_CASE("a rank that has sent its chunks and then left is not missed") {
  require_told("leaves-early", "COCONET_TIMEOUT_S=60 COCONET_CXXFLAGS=-O0 ", leaving_rank);
}

TEST_CASE("a rank that gives up passes on nothing of what it has not got") {
  require_told("passes-nothing-on", "COCONET_CXXFLAGS=-O0 ", others_begin_late);
}
