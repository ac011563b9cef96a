// What goes wrong in MPI worlds. Each case ends its world, so that comm.sh runs each in processes
// of its own.
//
// Some faults are played: a function of MPI that is defined here takes the place of the library's.
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "coconet/coconet.h"
#include "coconet/mpi.h"
#include "elements.h"
#include "jit/comm/collectives/direct_collectives.h"
#include "jit/comm/comm_checks.h"
#include "jit/mpi/threads.h"
#include "jit/mpi/world.h"
#include "mpi/own_calls.h"
#include "sample.h"

using namespace coconet;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;

namespace {

/// The late rank is so until all others, which call this, too, have given it up. They are late with
/// COCONET_TIMEOUT_S=4: on a busy machine, ranks that are not late come a second apart. Asleep, as
/// MPI_Barrier is not, for the seconds that this takes.
void await_all() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace

TEST_CASE("an error of MPI is told in its words", "[broken]") {
  const auto comm = jit::make_mpi_comm();
  test::Group group(*comm, {0, 1});
  group.go_by_mpi(true);
  test::broken_all_reduce = true;
  const std::vector<float> in(1000);
  std::vector<float> out(in.size());
  CHECK_THROWS_WITH(
      group.all_reduce(in.data(), out.data(), in.size(), f32, Reduction::sum),
      Contains("MPI_Allreduce failed on rank " + std::to_string(comm->rank()) + ": ") &&
          Contains("count"));
}

// Rank 0's process ends with a sentence, which comm.sh looks for.
TEST_CASE("a rank that is stopped inside a call of MPI", "[stopped-in-mpi]") {
  const auto comm = jit::make_mpi_comm();
  test::Group group(*comm, {0, 1});
  group.go_by_mpi(true);
  const std::vector<float> in(1000);
  std::vector<float> out(in.size());
  std::printf("rank %d has printed this before\n", comm->rank());
  test::stops_inside = comm->rank() == 1;
  group.all_reduce(in.data(), out.data(), in.size(), f32, Reduction::sum);
  FAIL("the call has ended");
}

TEST_CASE("a late rank is missed by name, and hears of it", "[late]") {
  const auto comm = jit::make_mpi_comm();
  if (comm->rank() == 1) await_all();
  if (comm->rank() == 0) {
    CHECK_THROWS_WITH(
        comm->barrier(),
        "rank 0 waited in barrier for rank 1, which did not come within 4 s, the limit that "
        "COCONET_TIMEOUT_S sets");
    await_all();
  } else {
    comm->barrier();
    CHECK_THROWS_WITH(comm->barrier(),
                      "rank 1 waited in barrier for rank 0, which waited in barrier for rank 1; "
                      "they are in different calls, or one came too late");
  }
  await_all();
}

TEST_CASE("a child of a rank that exits as processes do is no rank", "[forks]") {
  const World world = World::mpi();
  Program program("sum", Mesh::over(world));
  program.output("y", all_reduce(program.input("x", f32, {10}, local), sum));
  Executable step = compile(program, Schedule(), world);
  step.write("x", std::vector<float>(10, 1));
  step.run();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = 1;
  (void)waitpid(child, &status, 0);  // CTest's limit ends the test where the child hangs
  CHECK(status == 0);
  CHECK_NOTHROW(step.run());
  world.barrier();
}

TEST_CASE("a rank that is late for a collective is missed by name", "[late-collective]") {
  const auto comm = jit::make_mpi_comm();
  test::Group group(*comm, {0, 1});
  if (comm->rank() == 1) {
    await_all();
  } else {
    const float in = 1;
    float out = 0;
    CHECK_THROWS_WITH(
        group.all_reduce(&in, &out, 1, f32, Reduction::sum),
        Contains("rank 0 waited in all_reduce for rank 1, which did not come within 4 s"));
    await_all();
  }
  await_all();
}

TEST_CASE("a rank that finalises MPI is missed by name at once", "[leaves]") {
  const auto comm = jit::make_mpi_comm();
  const auto start = std::chrono::steady_clock::now();
  if (comm->rank() == 1) {
    MPI_Finalize();
    CHECK_THROWS_WITH(comm->barrier(),
                      Contains("rank 1 has left this world already, which ends with MPI_Finalize"));
    CHECK_THROWS_WITH((void)jit::make_mpi_comm(),
                      Contains("World::mpi was called after MPI_Finalize"));
    return;
  }
  CHECK_THROWS_WITH(comm->barrier(),
                    "rank 0 waited in barrier for rank 1, which has left the world");
  CHECK(test::is_within(start, std::chrono::seconds(20)));
}

TEST_CASE("a step after MPI_Finalize is refused, and its executable ends as any", "[finalized]") {
  const World world = World::mpi();
  Program program("sum", Mesh::over(world));
  const Dim n = program.dim("n", 100);
  program.output("y", all_reduce(program.input("x", f32, {n}, local), sum).named("total"));
  Executable step = compile(program, Schedule().fuse("k", "all_reduce", {"total"}), world);
  step.write("x", std::vector<float>(100, 1.0f));
  step.run();
  CHECK(test::elements_of(step, "y").back() == 2.0f);
  world.barrier();
  MPI_Finalize();
  CHECK_THROWS_WITH(step.run(), Contains("has left this world already, which ends with "
                                         "MPI_Finalize"));
  CHECK_THROWS_WITH(compile(program, world), Contains("has left this world already"));
}

TEST_CASE("a world that the application started MPI for is the application's to end",
          "[application]") {
  MPI_Init(nullptr, nullptr);
  {
    const World world = World::mpi();
    world.barrier();
  }
  int initialised = 0;
  MPI_Initialized(&initialised);
  CHECK(initialised == 1);
  MPI_Finalize();
}

constexpr const char* only_first_thread =
    "MPI provides MPI_THREAD_FUNNELED, and calls from a thread other than the one that initialised "
    "it need MPI_THREAD_SERIALIZED; initialise MPI by MPI_Init_thread with that level, or use "
    "coconet-jit from that thread only";

TEST_CASE("MPI for one thread serves that thread, and refuses others", "[funneled]") {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  REQUIRE(provided == MPI_THREAD_FUNNELED);
  const World world = World::mpi();
  world.barrier();
  std::thread([&] { CHECK_THROWS_WITH(world.barrier(), only_first_thread); }).join();
  std::thread([] { CHECK_THROWS_WITH(World::mpi(), only_first_thread); }).join();
  world.barrier();  // nobody has come to the one that was refused
  MPI_Finalize();
}

TEST_CASE("MPI for one thread makes no world on another one", "[funneled-late]") {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  std::thread([] { CHECK_THROWS_WITH(World::mpi(), only_first_thread); }).join();
  CHECK(jit::mpi_thread_problem(MPI_THREAD_SINGLE, true).empty());
  CHECK_THAT(jit::mpi_thread_problem(MPI_THREAD_SINGLE, false),
             Contains("MPI provides MPI_THREAD_SINGLE, and calls"));
  CHECK(jit::mpi_thread_problem(MPI_THREAD_SERIALIZED, false).empty());
  CHECK(jit::mpi_thread_problem(MPI_THREAD_MULTIPLE, false).empty());
  MPI_Finalize();
}

/// What `rank` says where rank 3 is late for `call`. That one hears of the others, who have given
/// up by then or are about to.
class MissesRank3 : public Catch::MatcherBase<std::string> {
 public:
  MissesRank3(const std::string& call, int rank)
      : late_("waited in " + call + " for rank 3, which did not come"),
        different_("which waited in " + call + " for rank 3; they are in different calls"),
        is_late_(rank == 3) {}
  bool match(const std::string& text) const override {
    return Contains(late_).match(text) || (is_late_ && Contains(different_).match(text));
  }
  std::string describe() const override { return "misses rank 3: " + late_; }

 private:
  std::string late_, different_;
  bool is_late_;
};

TEST_CASE("a rank that is late for a step of several nodes is missed by its name",
          "[late-for-step]") {
  const World world = World::mpi();
  const Mesh mesh({{"node", 2}, {"gpu", 2}});
  Executable step =
      compile(programs::sgd(mesh), Schedule::load("sgd-hierarchical.json"), world, {{"n", 100}});
  (void)step.data<float>("g"), (void)step.data<float>("w");
  step.run({{"lr", 1}});
  if (world.rank() == 3) await_all();
  CHECK_THROWS_WITH(step.run({{"lr", 1}}), MissesRank3("run", world.rank()));
  if (world.rank() != 3) await_all();
  await_all();
}

// Four ranks, of which rank 3 is late.
TEST_CASE("all ranks of all nodes miss a late rank by its name, or hear of it", "[late-of-four]") {
  const auto comm = jit::make_mpi_comm();
  if (comm->rank() == 3) await_all();
  CHECK_THAT(refusal<CommError>([&] {
               for (int call = 0; call < 2; ++call) (void)comm->all_gather("here");
             }),
             MissesRank3("all_gather", comm->rank()));
  if (comm->rank() != 3) await_all();
  await_all();
}

TEST_CASE("a rank that leaves while ranks of other nodes wait in a collective is missed at once",
          "[leaves-of-four]") {
  const auto comm = jit::make_mpi_comm();
  test::Group group(*comm, {0, 1, 2, 3});
  const auto start = std::chrono::steady_clock::now();
  if (comm->rank() == 2) {
    MPI_Finalize();
    return;
  }
  const float in = 1;
  float out = 0;
  CHECK_THROWS_WITH(group.all_reduce(&in, &out, 1, f32, Reduction::sum),
                    Contains("waited in all_reduce for rank 2, which has left the world"));
  CHECK(test::is_within(start, std::chrono::seconds(20)));
}

TEST_CASE("ranks of different nodes that are in different calls are told so", "[different]") {
  const auto comm = jit::make_mpi_comm();
  CHECK_THAT(refusal<CommError>([&] {
               if (comm->rank() == 0) {
                 comm->barrier();
               } else {
                 (void)comm->all_gather("x");
               }
             }),
             Contains("; all ranks must make the same collective calls"));
}

// Run on three ranks, with COCONET_TIMEOUT_S=4.
TEST_CASE("a rank that does not come to the making of a world is missed by name", "[missing]") {
  const World all = World::mpi();
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  if (all.rank() != 1) {
    CHECK_THROWS_WITH(World::mpi(communicator),
                      Matches("rank " + std::to_string(all.rank()) +
                              " waited in World::mpi for rank 1, which did not come (within 4 s, "
                              "the limit that COCONET_TIMEOUT_S sets|before rank [02] gave up)"));
  }
  await_all();
  if (all.rank() != 1) return;
  CHECK_THROWS_WITH(World::mpi(communicator), Contains("rank 1 came to World::mpi when rank ") &&
                                                  Contains(" had given up waiting for it"));
}

TEST_CASE("library collectives go on, of any size, when an MPI world has shrunk", "[shrinks]") {
  const auto comm = jit::make_mpi_comm();
  if (comm->rank() == comm->size() - 1) {
    comm->membership()->leave();
  } else {
    CHECK_THROWS_AS(comm->barrier(), CommError);
    const auto next = comm->shrink();
    CHECK(next->size() == comm->size() - 1);
    test::Group group(*next, {0, 1});
    for (const std::size_t bytes : {std::size_t{1} << 15, jit::DirectCollectives::capacity,
                                    3 * jit::DirectCollectives::capacity + 20}) {
      const std::size_t elements = bytes / sizeof(float);
      REQUIRE_NOTHROW(test::check_collectives(group, {elements, 1}, f32, Reduction::sum));
    }
    next->barrier();
  }
  await_all();
}
