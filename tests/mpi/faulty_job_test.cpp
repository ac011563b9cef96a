// A rank of a job of which one is lost somewhere: tests/mpi/launch/lose_rank.sh starts it, and
// looks at what the others say. The environment tells what happens:
// clang-format off
//   JOB_WORLD                    mpi, or from: a Bootstrap by files in JOB_FOLDER, of JOB_RANKS,
//                                this one JOB_RANK
//   JOB_FOLDER                   where ranks leave what they say, and checkpoints
//   LOST_RANK                    whom it happens to
//   LOST_BY                      kill, stop, term, exit, abort or hang
//   LOST_IN                      a phase: making, compile, run, collectives, save, load, shrink or
//                                finalize; kernel, whose compiler plants it; or in front of a call:
//                                MPI_Comm_split:2 is the third of that function
//   LOST_AFTER_US                how long after the phase has begun
//   JOB_ALGORITHM, JOB_PROTOCOL  of the kernels
// clang-format on
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "coconet/coconet.h"
#include "coconet/mpi.h"
#include "files.h"
#include "jit/comm/access.h"
#include "jit/comm/collectives/direct_collectives.h"
#include "jit/comm/comm_checks.h"
#include "mpi/own_calls.h"

using namespace coconet;

namespace {

std::string variable(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

int own_rank() {
  for (const char* name : {"JOB_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return std::stoi(variable(name));
  }
  return 0;
}

const std::filesystem::path folder = variable("JOB_FOLDER");
const int lost = std::stoi(variable("LOST_RANK", "-1"));
const std::string lost_in = variable("LOST_IN");
const std::string lost_by = variable("LOST_BY");

/// As a signal handler may do it.
void be_lost(int = 0) {
  (void)!write(STDERR_FILENO, "LOST\n", 5);
  if (lost_by == "kill") kill(getpid(), SIGKILL);
  if (lost_by == "stop") kill(getpid(), SIGSTOP);
  if (lost_by == "term") kill(getpid(), SIGTERM);
  if (lost_by == "exit") _exit(3);
  if (lost_by == "abort") abort();
  while (lost_by == "hang") pause();
}

void begin(const std::string& phase) {
  if (own_rank() != lost || phase != lost_in) return;
  const long after = std::stol(variable("LOST_AFTER_US", "0"));
  if (after == 0) {
    if (lost_by == "exit") {
      std::fprintf(stderr, "LOST\n");
      std::exit(3);
    }
    be_lost();
    return;
  }
  std::signal(SIGALRM, be_lost);
  const itimerval once{{0, 0}, {after / 1'000'000, after % 1'000'000}};
  setitimer(ITIMER_REAL, &once, nullptr);
}

void look_at_call(const char* name, int calls) {
  if (lost_in == std::string(name) + ":" + std::to_string(calls)) be_lost();
}

/// By a file for each rank and call; gives a rank up in the end, as a launcher would.
std::vector<std::string> gather_by_files(int rank, int ranks, std::string_view mine) {
  static int round = 0;
  const auto place = [&](int of) {
    return folder / ("round." + std::to_string(round) + "." + std::to_string(of));
  };
  std::ofstream(place(rank).string() + ".new") << mine;
  std::filesystem::rename(place(rank).string() + ".new", place(rank));
  std::vector<std::string> all;
  const auto start = std::chrono::steady_clock::now();
  for (int of = 0; of < ranks; ++of) {
    while (!std::filesystem::exists(place(of))) {
      if (std::chrono::steady_clock::now() - start > std::chrono::seconds(10))
        throw std::runtime_error("the launcher waited for rank " + std::to_string(of) +
                                 ", which did not come");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    all.push_back(test::read_file(place(of)));
  }
  ++round;
  return all;
}

World make_world() {
  if (variable("JOB_WORLD") == "mpi") return World::mpi();
  const int ranks = std::stoi(variable("JOB_RANKS"));
  return World::from({own_rank(), ranks, [ranks](std::string_view mine) {
                        return gather_by_files(own_rank(), ranks, mine);
                      }});
}

constexpr std::size_t elements = 20'000;

/// The sum of all ranks' twos: by a kernel inside nodes of equal size, and by the library
/// elsewhere.
Executable make_step(const World& world) {
  const bool is_one = world.nodes() == 1, is_even = world.size() == 2 * world.nodes();
  const Mesh mesh =
      is_one || !is_even ? Mesh::over(world) : Mesh({{"node", world.nodes()}, {"gpu", 2}});
  Knobs knobs;
  knobs.algorithm = variable("JOB_ALGORITHM", "direct");
  knobs.protocol = variable("JOB_PROTOCOL", "simple");
  Program program("sums", mesh);
  const Dim n = program.dim("n", elements);
  const Value x = program.input("x", f32, {n}, local);
  program.state("s", f32, {n}, local);
  Value sums = (x + x).named("twice");
  sums = (is_one || !is_even ? all_reduce(sums, sum) : all_reduce(sums, sum, "gpu")).named("first");
  if (!is_one && is_even) sums = all_reduce(sums, sum, "node").named("second");
  program.output("y", sums);
  Schedule schedule("sums");
  if (is_one || is_even) schedule.fuse("kernel", "all_reduce", {"first"}, knobs);
  Executable step = compile(program, schedule, world);
  std::ranges::fill(step.data<float>("x"), 1.0F);
  return step;
}

void run(Executable& step, int ranks, int steps) {
  for (int turn = 0; turn < steps; ++turn) {
    step.run();
    if (step.data<float>("y").back() != static_cast<float>(2 * ranks))
      throw std::logic_error("a wrong result");
  }
}

/// The library's collectives, its own ways first and then MPI's.
void run_collectives(const World& world) {
  jit::Comm& comm = *jit::Access::comm(world);
  test::Group group(comm);
  for (const bool by_mpi : {false, true}) {
    group.go_by_mpi(by_mpi);
    for (const std::size_t count : {std::size_t{10}, jit::DirectCollectives::capacity / 8,
                                    jit::DirectCollectives::capacity + 1})
      for (const DType dtype : {f32, bf16})
        test::check_collectives(group, std::vector<std::size_t>(group.size(), count), dtype,
                                Reduction::sum);
  }
}

/// A world of its own, which ends with its communicator.
void free_communicator() {
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  World::mpi(communicator).barrier();
  MPI_Comm_free(&communicator);
}

void go_through_phases() {
  begin("making");
  World world = make_world();
  if (lost_in.starts_with("MPI_Comm_free")) free_communicator();
  begin("compile");
  begin("tune");
  Executable step = make_step(world);
  begin("run");
  run(step, world.size(), 40);
  begin("collectives");
  if (lost_in == "collectives" || lost_in.starts_with("MPI_")) run_collectives(world);
  begin("save");
  if (lost_in == "save" || lost_in == "load") step.save(folder / "checkpoint");
  begin("load");
  if (lost_in == "load") {
    step.load(folder / "checkpoint");
    world.barrier();
  }
  if (lost_in == "shrink") {
    // Another rank goes before, when all have come so far.
    if (world.rank() == (lost + 1) % world.size()) {
      world.barrier();
      _exit(4);
    }
    try {
      for (;;) world.barrier();
    } catch (const CommError&) {
    }
    begin("shrink");
    world = world.shrink();
    step = make_step(world);
    run(step, world.size(), 10);
  }
  begin("finalize");
}

}  // namespace

TEST_CASE("a rank of a job of which one is lost", "[.faulty-job]") {
  const int rank = own_rank();
  const std::filesystem::path log = folder / ("says." + std::to_string(rank));
  REQUIRE(std::freopen(log.c_str(), "w", stderr) != nullptr);
  const std::filesystem::path pid = folder / ("pid." + std::to_string(rank));
  std::ofstream(pid.string() + ".new") << getpid() << '\n';
  std::filesystem::rename(pid.string() + ".new", pid);
  if (rank == lost && lost_in.starts_with("MPI_")) test::before_call = look_at_call;
  for (const int signal : {SIGTERM, SIGABRT}) std::signal(signal, SIG_DFL);  // not Catch's
  int code = 0;
  try {
    go_through_phases();
    std::fprintf(stderr, "DONE\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 1;
  }
  std::fflush(stderr);
  std::exit(code);
}
