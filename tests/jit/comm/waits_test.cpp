// Whom the ranks of a world miss, and what they hear of each other while they wait.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <future>
#include <thread>

#include "coconet/world.h"
#include "jit/comm/access.h"
#include "jit/comm/barrier/barrier.h"
#include "jit/comm/barrier/watch.h"
#include "jit/comm/comm.h"
#include "jit/comm/comm_checks.h"
#include "jit/comm/worlds/board_comm.h"
#include "refusal.h"
#include "sample.h"

using namespace coconet;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using namespace std::chrono_literals;

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

TEST_CASE("ranks that are interrupted as they wait for each other name whom others miss",
          "[comm]") {
  Stage stage(4);
  stage.membership(1, 1s)->leave();
  const auto outcome = [&](int rank, int awaited) {
    return refusal<CommError>([&] {
      stage.membership(rank, 1s)->give_up({"in all_gather", {awaited}, "which is late"});
    });
  };
  CHECK(outcome(0, 1) == "rank 0 waited in all_gather for rank 1, which has left the world");
  stage.membership(3, 1s)->await(2, "in all_gather");
  CHECK(outcome(2, 3) ==
        "rank 2 waited in all_gather for rank 3 when rank 0 gave up, which waited in all_gather "
        "for rank 1, which has left the world");
  CHECK(outcome(3, 2) ==
        "rank 3 waited in all_gather for rank 2 when rank 0 gave up, which waited in all_gather "
        "for rank 1, which has left the world");
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

TEST_CASE("a rank of another node that ended stuck in MPI is quoted, not taken for the lost one",
          "[comm]") {
  Stage stage(3), elsewhere(3);
  const std::string why = "rank 1 was inside MPI_Test; stopped by a signal or a debugger: rank 2";
  const auto ending = elsewhere.membership(1, 1s);
  ending->await(1, "inside MPI_Test");
  ending->fail(why);
  const auto near = std::make_shared<jit::Membership>(
      0, stage.status_of, std::vector<std::uint64_t*>{stage.table_of[0], nullptr, nullptr},
      jit::Waiting{50ms, false, {}});
  near->listen({.answer = [] {},
                .find_silent =
                    [] {
                      return std::vector<int>{1, 2};
                    },
                .has_answered = [](int) { return true; }});
  CHECK_FALSE(near->is_over());
  near->take_end(1, elsewhere.statuses[1]);
  CHECK(near->is_over());
  CHECK_THROWS_WITH(near->require_nobody_failed(), "rank 1 failed: " + why);
  const auto waits_for = [&](std::vector<int> awaited) {
    return refusal<CommError>([&] { near->give_up({"in barrier", std::move(awaited)}); });
  };
  CHECK(waits_for({1, 2}) ==
        "rank 0 waited in barrier for rank 2, which gives no sign of life: on its node its process "
        "is stopped or has ended, or no datagram gets there");
  stage.statuses[0] = {};
  CHECK(waits_for({1}) ==
        "rank 0 waited in barrier for rank 1, which waited inside MPI_Test (" + why + ")");
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

TEST_CASE("the system says what a process does, and when it began", "[comm]") {
  const double own_start_s = jit::status_of_process(getpid()).start_s;
  CHECK(own_start_s > 0);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  CHECK(jit::status_of_process(child).start_s >= own_start_s);
  kill(child, SIGSTOP);
  REQUIRE(waitpid(child, nullptr, WUNTRACED) == child);
  CHECK(jit::status_of_process(child).state == 'T');
  kill(child, SIGKILL);
  siginfo_t ended = {};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  CHECK(jit::status_of_process(child).state == 0);
  CHECK(jit::status_of_process(child).start_s >= own_start_s);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(jit::status_of_process(child).start_s == 0);
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

TEST_CASE("reasons longer than a status are cut", "[comm]") {
  Stage stage(2);
  stage.membership(1, 1s)->fail(std::string(5000, 'x'));
  jit::Barrier barrier(stage.membership(0, 1s), stage.all, stage.arrival_of, {});
  CHECK_THROWS_WITH(barrier.wait("barrier"), StartsWith("rank 1 failed: xxx"));
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
