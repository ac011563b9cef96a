// Worlds of one process: self, and local with its ranks on threads.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <future>
#include <thread>

#include "coconet/mesh.h"
#include "coconet/world.h"
#include "jit/comm/access.h"
#include "jit/comm/barrier/barrier.h"
#include "jit/comm/checks_16_bit.h"
#include "jit/comm/collectives/combine.h"
#include "jit/comm/comm.h"
#include "jit/comm/comm_checks.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/mpi/world.h"
#include "refusal.h"
#include "sample.h"

using namespace coconet;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

TEST_CASE("the self world does what every world does", "[comm]") {
  const auto comm = jit::make_self_comm();
  CHECK(comm->kind() == "self");
  CHECK(comm->size() == 1);
  REQUIRE_NOTHROW(test::check_world(*comm));
}

TEST_CASE("local worlds of 1 to 5 ranks do what every world does", "[comm]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
    test::expect(world.kind() == "local" && world.size() == ranks,
                 "a local world knows its kind and size");
    test::expect(Mesh::over(world) == Mesh({{"world", ranks}}), "a mesh over it has one axis");
    test::check_world(jit::comm_of(world));
  }));
}

TEST_CASE("16-bit floats of threads are added in f32 and rounded once", "[comm]") {
  REQUIRE_NOTHROW(World::local(GENERATE(2, 3, 4),
                               [&](World& world) { test::check_16_bit(jit::comm_of(world)); }));
}

TEST_CASE("combine takes its operands in order", "[comm]") {
  const float in = 0.0F;
  float inout = -0.0F;
  jit::combine(f32, Reduction::max, &in, &inout, 1);
  CHECK(std::signbit(inout));
  CHECK_THROWS_WITH(jit::combine(f32, Reduction::mean, &in, &inout, 1),
                    "a mean was asked for where only sums are taken, or of integers");
  CHECK_THROWS_AS(jit::divide(i32, &inout, 1, 2), InternalError);
}

TEST_CASE("buffers of a world are typed, zeroed and seen by every rank", "[comm]") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    const Buffer buffer = world.allocate(f32, 10);
    test::expect(buffer.dtype() == f32 && buffer.count() == 10 && buffer.as<float>()[9] == 0,
                 "a buffer's facts");
    buffer.as<float>()[0] = static_cast<float>(world.rank()) + 1;
    world.barrier();
    test::expect(buffer.of<float>(1 - world.rank())[0] == static_cast<float>(2 - world.rank()),
                 "the other rank's block is in reach");
    test::expect(buffer.of<float>(world.rank()).data() == buffer.as<float>().data(),
                 "the own block is among those of all ranks");
    world.barrier();
  }));
  const Buffer buffer = World::self().allocate(f16, 3);
  CHECK_THROWS_WITH((void)buffer.as<float>(), "the buffer holds f16, but is read as f32");
  CHECK_THROWS_WITH((void)buffer.of<float>(0), "the buffer holds f16, but is read as f32");
  CHECK_THROWS_WITH((void)buffer.of<Half>(1),
                    "a buffer of rank 1 was asked for; the world has the ranks 0 to 0");
  CHECK_THROWS_WITH(
      (void)Buffer().of<float>(0),
      "a buffer of rank 0 was asked for; this one is empty: World::allocate makes one");
  CHECK_THROWS_WITH((void)World::self().allocate(f64, SIZE_MAX / 4),
                    Contains("elements of f64: their size in bytes does not fit 64 bits"));
}

TEST_CASE("memory outlives the world that it came from", "[comm]") {
  std::vector<Buffer> buffers(2);
  World::local(2, [&](World& world) { buffers[world.rank()] = world.allocate(i64, 4); });
  buffers[0].as<std::int64_t>()[3] = 7;
  CHECK(buffers[1].of<std::int64_t>(0)[3] == 7);
}

TEST_CASE("a world needs a rank", "[comm]") {
  CHECK_THROWS_WITH(World::local(0, [](World&) {}),
                    "a local world of 0 ranks was asked for; it needs at least 1");
}

TEST_CASE(
    "when a rank throws, the ranks that wait for it fail at once and World::local throws the cause",
    "[comm]") {
  std::vector<std::string> heard(3);
  const auto start = Clock::now();
  CHECK_THROWS_AS(World::local(3,
                               [&](World& world) {
                                 if (world.rank() == 1) throw ProgramError("no such op");
                                 try {
                                   world.barrier();
                                 } catch (const CommError& e) {
                                   heard[world.rank()] = e.what();
                                   throw;
                                 }
                               }),
                  ProgramError);
  CHECK(test::is_within(start, 10s));
  for (const int rank : {0, 2})
    CHECK_THAT(heard[rank], Contains("failed: ") && Contains("no such op"));
}

TEST_CASE("World::local throws the cause, not what other ranks were told of it", "[comm]") {
  // Rank 0 hears of rank 1's failure and ends long before rank 1 does.
  CHECK_THROWS_AS(World::local(2,
                               [](World& world) {
                                 try {
                                   together(jit::comm_of(world), [&] {
                                     if (world.rank() == 1) throw CompileError("no compiler");
                                   });
                                 } catch (const CompileError&) {
                                   std::this_thread::sleep_for(20ms);
                                   throw;
                                 }
                               }),
                  CompileError);
}

TEST_CASE("a rank that ends early is missed by name", "[comm]") {
  CHECK_THROWS_WITH(World::local(3,
                                 [](World& world) {
                                   if (world.rank() == 1) return;
                                   world.barrier();
                                 }),
                    Contains(" waited in barrier for rank 1, which has left the world"));
}

TEST_CASE("a failure in one group ends the waits in others", "[comm]") {
  CHECK_THROWS_WITH(
      World::local(
          3,
          [](World& world) {
            const bool pair = world.rank() < 2;
            test::Group group(jit::comm_of(world), pair ? std::vector{0, 1} : std::vector{2});
            if (world.rank() == 2) throw BackendError("rank 2 is out");
            if (world.rank() == 1) std::this_thread::sleep_for(20ms);
            const float in = 1;
            float out = 0;
            for (;;) group.all_reduce(&in, &out, 1, f32, Reduction::sum);
          }),
      "rank 2 is out");
}

namespace {

/// The statuses and arrivals of a world whose ranks the test plays itself.
struct Stage {
  explicit Stage(int ranks)
      : statuses(ranks), notices(ranks, std::vector<std::uint64_t>(ranks)), arrivals(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(rank);
      status_of.push_back(&statuses[rank]);
      table_of.push_back(notices[rank].data());
      arrival_of.push_back(&arrivals[rank]);
    }
  }
  std::shared_ptr<jit::Membership> membership(int rank, std::chrono::milliseconds timeout) {
    return std::make_shared<jit::Membership>(rank, status_of, table_of,
                                             jit::Waiting{timeout, false, {}});
  }
  std::vector<jit::RankStatus> statuses;
  std::vector<std::vector<std::uint64_t>> notices;
  std::vector<std::uint64_t> arrivals;
  std::vector<int> all;
  std::vector<jit::RankStatus*> status_of;
  std::vector<std::uint64_t*> table_of;
  std::vector<std::uint64_t*> arrival_of;
};

}  // namespace

TEST_CASE("a wait that lasts too long names the missing ranks, and all ranks hear of it",
          "[comm]") {
  Stage stage(4);
  const auto first = stage.membership(0, 30ms);
  jit::Barrier barrier(first, stage.all, stage.arrival_of, {});
  stage.arrivals[2] = 1 << 24 | 4;  // once, in all_reduce
  CHECK_THROWS_WITH(barrier.wait("all_reduce"),
                    "rank 0 waited in all_reduce for ranks 1 and 3, which did not come within 0.03 "
                    "s, the limit that "
                    "COCONET_TIMEOUT_S sets");
  CHECK_THROWS_WITH(barrier.wait("barrier"),
                    Contains("rank 0 failed in this world before: rank 0 waited in "));

  jit::Barrier late(stage.membership(1, 10s), stage.all, stage.arrival_of, {});
  CHECK_THROWS_WITH(late.wait("all_reduce"),
                    StartsWith("rank 1 waited in all_reduce for rank 3, which did not come"));
}

TEST_CASE("who is late is named by those, too, that wait for those that wait for it", "[comm]") {
  Stage stage(4);
  const auto outcome = [&](int rank, std::chrono::milliseconds timeout, jit::FailedWait wait) {
    return std::async(std::launch::async, [=, &stage] {
      std::this_thread::sleep_for(timeout);
      return refusal<CommError>([&] { stage.membership(rank, 1s)->give_up(wait); });
    });
  };
  auto first = outcome(0, 0ms, {"in kernel 'k'", {1}, "which is late"});
  auto second = outcome(1, 100ms, {"in barrier", {2, 3}, "which are late"});
  auto third = outcome(2, 50ms, {"in kernel 'l'", {3}, "which is late"});
  CHECK(third.get() == "rank 2 waited in kernel 'l' for rank 3, which is late");
  // Of those that it waited for, rank 2 has given up itself, or is giving up: then it says for
  // whom.
  CHECK_THAT(second.get(),
             StartsWith("rank 1 waited in barrier for rank") && Contains("rank 3, which"));
  CHECK_THAT(first.get(),
             StartsWith("rank 0 waited in kernel 'k' for rank 1, which waited in barrier for ") &&
                 EndsWith("rank 3, which is late"));
  CHECK(stage.membership(3, 1s)->is_over());
}

TEST_CASE("a rank whose process has ended is the root cause, whoever waits for whom", "[comm]") {
  Stage stage(3);
  const auto noticing = stage.membership(1, 10s);
  CHECK_FALSE(noticing->is_over());
  noticing->lose(2);
  for (const int rank : {0, 1}) {
    CHECK(stage.membership(rank, 10s)->is_over());
    CHECK_THROWS_WITH(stage.membership(rank, 10s)->require_nobody_failed(),
                      "rank 2 is gone: its process has ended");
  }
  jit::Barrier barrier(stage.membership(0, 10s), stage.all, stage.arrival_of, {});
  CHECK_THROWS_WITH(barrier.wait("barrier"),
                    "rank 0 waited in barrier for rank 2, whose process has ended");
  jit::Barrier pair(noticing, {0, 1}, {stage.arrival_of[0], stage.arrival_of[1]}, {});
  stage.arrivals[0] = 0;
  CHECK_THROWS_WITH(pair.wait("barrier"),
                    "rank 1 waited in barrier for rank 0 when the process of rank 2 had ended");

  Stage other(2);
  other.membership(1, 10s)->leave();
  other.membership(0, 10s)->lose(1);  // it had left before it ended
  CHECK_FALSE(other.membership(0, 10s)->is_over());
}

TEST_CASE("a rank of another node that gave up waiting and left is named", "[comm]") {
  Stage stage(2);
  jit::Membership far(1, stage.status_of, stage.table_of, jit::Waiting{1s, false, {}});
  far.await(0, "in barrier");
  far.leave();
  jit::Membership near(0, stage.status_of, {stage.table_of[0], nullptr},
                       jit::Waiting{1s, false, {}});
  CHECK_THROWS_WITH(near.require_nobody_failed(),
                    "rank 1 waited in barrier for rank 0 and gave up");
}

TEST_CASE("a rank that ends alone on its node is missed also where its work has minutes more",
          "[comm]") {
  Stage stage(2);
  // Its message is not here, or this rank's is not taken.
  const bool arrived = GENERATE(false, true);
  const auto near = std::make_shared<jit::Membership>(
      0, stage.status_of, std::vector<std::uint64_t*>{stage.table_of[0], nullptr},
      jit::Waiting{50ms, false, {}});
  int questions = 0;
  near->listen({.answer = [] {},
                .find_silent =
                    [&] {
                      ++questions;
                      return std::vector<int>{1};
                    },
                .has_answered = [](int) { return true; }});
  const jit::RemoteNotifier notifier{[](std::uint64_t) {}, [&] { return !arrived; }};
  jit::Barrier barrier(near, stage.all, stage.arrival_of, {}, notifier);
  if (arrived) stage.arrivals[1] = 1 << 24 | 1;
  CHECK_THROWS_WITH(barrier.wait("barrier", 10min),
                    "rank 0 waited in barrier for rank 1, which gives no sign of life: on its node "
                    "its process is stopped or has ended, or no datagram gets there");
  CHECK(questions == 1);
}

TEST_CASE("who has never answered is not lost because it does not", "[comm]") {
  Stage stage(2);
  const auto near = std::make_shared<jit::Membership>(
      0, stage.status_of, std::vector<std::uint64_t*>{stage.table_of[0], nullptr},
      jit::Waiting{50ms, false, {}});
  near->listen({.answer = [] {},
                .find_silent = [] { return std::vector<int>{1}; },
                .has_answered = [](int) { return false; }});
  CHECK_FALSE(near->has_gone_silent(1));
}

TEST_CASE("a process that ends is noticed, however it ends", "[comm]") {
  for (const bool is_killed : {true, false}) {
    Stage stage(2);
    const auto membership = stage.membership(0, 10s);
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGTERM, SIG_DFL);
      pause();
      _exit(0);
    }
    std::string name = jit::name_of_process();
    name.replace(0, name.find(' '), std::to_string(child));
    membership->watch({0, 1}, {jit::name_of_process(), name}, nullptr);
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(membership->is_over());
    const auto start = std::chrono::steady_clock::now();
    kill(child, is_killed ? SIGKILL : SIGTERM);
    jit::Barrier barrier(membership, stage.all, stage.arrival_of, {});
    CHECK_THROWS_WITH(barrier.wait("barrier"),
                      "rank 0 waited in barrier for rank 1, whose process has ended");
    CHECK(test::is_within(start, 100ms));
    waitpid(child, nullptr, 0);
  }
}

TEST_CASE("a rank that arrives and then leaves is not missed", "[comm]") {
  Stage stage(2);
  stage.arrivals[1] = 1 << 24 | 1;  // once, in barrier
  stage.membership(1, 1s)->leave();
  jit::Barrier barrier(stage.membership(0, 1s), stage.all, stage.arrival_of, {});
  CHECK_NOTHROW(barrier.wait("barrier"));
  CHECK_THROWS_WITH(barrier.wait("barrier"),
                    "rank 0 waited in barrier for rank 1, which has left the world");
}

TEST_CASE("ranks that are in different calls are told so", "[comm]") {
  const std::string order = "; all ranks must make the same collective calls in the same order";
  const std::string what = refusal<CommError>([] {
    World::local(2, [](World& world) {
      if (world.rank() == 0) {
        (void)jit::comm_of(world).all_gather("x");
      } else {
        world.barrier();
      }
    });
  });
  CHECK((what == "rank 0 is in all_gather, but rank 1 in barrier" + order ||
         what == "rank 1 is in barrier, but rank 0 in all_gather" + order));
}

TEST_CASE("reasons longer than a status are cut", "[comm]") {
  Stage stage(2);
  stage.membership(1, 1s)->fail(std::string(5000, 'x'));
  jit::Barrier barrier(stage.membership(0, 1s), stage.all, stage.arrival_of, {});
  CHECK_THROWS_WITH(barrier.wait("barrier"), StartsWith("rank 1 failed: xxx"));
}

TEST_CASE("collectives refuse counts and roots that do not fit the group", "[comm]") {
  World::local(2, [](World& world) {
    test::Group group(jit::comm_of(world), {0, 1});
    const std::size_t counts[] = {1, 2, 3};
    double data[6] = {};
    const auto message = [](auto body) { return refusal<InternalError>(body); };
    test::expect_contains(message([&] { group.all_gather(data, data + 3, counts, f64); }),
                          "all_gather was given 3 counts; the group has 2 ranks");
    test::expect_contains(message([&] { group.broadcast(data, data, 1, f64, 2); }),
                          "broadcast was given the root 2; the group has the ranks 0 to 1");
    test::expect_contains(message([&] { (void)jit::comm_of(world).broadcast("", 7); }),
                          "broadcast from rank 7 of a world of 2");
  });
}

TEST_CASE("ranks crowd a core where they are bound to it", "[comm]") {
  const auto cores = [](std::initializer_list<int> list) {
    jit::Cores set;
    for (const int core : list) set.set(core);
    return set;
  };
  const auto all = cores({0, 1, 2, 3});
  CHECK(jit::ranks_per_core({all}) == 1);
  CHECK(jit::ranks_per_core({all, all, all, all}) == 1);
  CHECK(jit::ranks_per_core({all, all, all, all, all}) == 2);
  CHECK(jit::ranks_per_core({cores({0}), cores({1})}) == 1);
  CHECK(jit::ranks_per_core({cores({0}), cores({0}), all}) == 2);
  CHECK(jit::available_cores().any());
}

TEST_CASE("nodes are told by who shares memory, whatever they are called", "[comm]") {
  const jit::Nodes nodes({0, 1, 0, 3}, {"ada", "bob", "ada", "ada"});
  CHECK(nodes.count() == 3);
  CHECK(nodes.beside(2) == std::vector<int>{0, 2});
  CHECK(nodes.share({0, 2}));
  CHECK_FALSE(nodes.share({2, 3}));
  CHECK(nodes.places({0, 1, 2, 3}) == "ranks 0 and 2 on ada; rank 1 on bob; rank 3 on ada");
  CHECK(nodes.places({1, 2}) == "rank 2 on ada; rank 1 on bob");
  const jit::Nodes one(3);
  CHECK(one.count() == 1);
  CHECK(one.beside(1) == std::vector<int>{0, 1, 2});
  CHECK(one.share({0, 1, 2}));
}

TEST_CASE("a barrier of ranks that share no memory ends when its messages are on their way",
          "[comm]") {
  Stage stage(2);
  std::vector<std::uint64_t> told;
  int left = 3;  // times that the messages are asked for until they are gone
  bool told_of_failure = false;
  const auto membership = stage.membership(0, 100ms);
  membership->exchange_notices(
      // Rank 1 comes while it is waited for.
      {[&] { stage.arrivals[1] = std::max<std::uint64_t>(stage.arrivals[1], 1 << 24 | 1); },
       [&](int rank, const jit::RankStatus&) { told_of_failure |= rank == 0; }});
  const jit::RemoteNotifier notifier{[&](std::uint64_t arrival) { told.push_back(arrival); },
                                     [&] { return --left <= 0; }};
  jit::Barrier barrier(membership, stage.all, stage.arrival_of, {}, notifier);
  barrier.wait("barrier");
  CHECK(told == std::vector<std::uint64_t>{1 << 24 | 1});
  CHECK(left == 0);

  stage.arrivals[1] = 2 << 24 | 1;
  left = 1 << 30;
  CHECK_FALSE(told_of_failure);
  CHECK_THROWS_WITH(
      barrier.wait("barrier"),
      "rank 0 waited in barrier for rank 1, where this rank's message was not taken in time");
  CHECK(told_of_failure);
}

TEST_CASE("who waits for messages to be taken hears of a rank that fails meanwhile", "[comm]") {
  Stage stage(2);
  jit::Membership other(1, stage.status_of, stage.table_of, jit::Waiting{1s, false, {}});
  const auto membership =
      std::make_shared<jit::Membership>(0, stage.status_of, stage.table_of, jit::Waiting{1s});
  membership->exchange_notices({[&] { other.fail("for this test"); }, {}});
  const jit::RemoteNotifier notifier{[](std::uint64_t) {}, [] { return false; }};
  jit::Barrier barrier(membership, stage.all, stage.arrival_of, {}, notifier);
  stage.arrivals[1] = 1 << 24 | 1;
  CHECK_THROWS_WITH(barrier.wait("barrier"), StartsWith("rank 1 failed: for this test"));
}

TEST_CASE("shared memory that does not fit /dev/shm is refused with its free space", "[comm]") {
  const jit::Exchange alone = [](std::string_view mine) {
    return std::vector<std::string>{std::string(mine)};
  };
  CHECK_THROWS_WITH(
      jit::map_across_processes(0, {0}, std::size_t{1} << 45, alone, jit::SharedFile::shm),
      Contains("rank 0: /dev/shm has ") &&
          Contains(" MiB free, but the ranks need 33554432 MiB; enlarge "));
  for (const auto kind : {jit::SharedFile::memfd, jit::SharedFile::shm}) {
    const auto memory = jit::map_across_processes(0, {3}, 10, alone, kind);
    memory->base(0)[9] = std::byte{1};
    CHECK(memory->bytes() == 10);
  }
}

TEST_CASE("a library without MPI says so", "[comm]") {
  const jit::MpiFacts facts = jit::mpi_facts();
  if (facts.built) {
    CHECK_FALSE(facts.version.empty());
  } else {
    CHECK_THROWS_WITH((void)World::mpi(),
                      Contains("was built without MPI") && Contains("-DCOCONET_MPI=ON"));
  }
}

TEST_CASE("a thread whose part has ended is not waited for when its world shrinks", "[comm]") {
  std::atomic<int> of_two{0};
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(World::local(3,
                                 [&](World& world) {
                                   if (world.rank() == 1) throw std::runtime_error("no more");
                                   try {
                                     for (;;) world.barrier();
                                   } catch (const CommError&) {
                                     const World next = world.shrink();
                                     next.barrier();
                                     if (next.size() == 2 && next.kind() == "local") ++of_two;
                                   }
                                 }),
                    "no more");
  CHECK(of_two == 2);
  CHECK(std::chrono::steady_clock::now() - start < 30s);  // a minute without that
}

TEST_CASE("a rank that stops as it is to choose who is left is named", "[comm]") {
  const auto board = jit::map_blocks(3, jit::BoardComm::board_bytes(3), -1, 1);
  std::vector<jit::RankStatus*> statuses;
  std::vector<std::uint64_t*> notices;
  for (int rank = 0; rank < 3; ++rank) {
    statuses.push_back(jit::BoardComm::status_at(board->base(rank)));
    notices.push_back(jit::BoardComm::notices_at(board->base(rank)));
  }
  const auto membership =
      std::make_shared<jit::Membership>(1, statuses, notices, jit::Waiting{50ms, false, {}});
  Options options;
  options.timeout = 50ms;
  jit::BoardComm comm("processes", board, {0, 1, 2}, membership, 1, jit::configure(options));
  membership->lose(2);
  // Rank 0 has joined, and does nothing from there on.
  *reinterpret_cast<std::uint64_t*>(jit::BoardComm::rest_at(board->base(0))) = 1;
  CHECK_THROWS_WITH(comm.shrink(), "rank 0 was late while the world shrank; end the job");
}
