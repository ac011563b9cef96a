// What the ranks do until one of them is lost, and afterwards.
#include "jit/run/fault_ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "shipped.h"

namespace coconet::test::faults {
namespace {

/// Of the rank that is lost: what its kernels' signals do.
struct Plan {
  Fault fault = Fault::kill;
  int signal = 0;  // 0: not armed
  Shared* shared = nullptr;
} plan;  // NOLINT: a handler of signals reaches nothing else

/// What a signal handler may do.
void happen(Fault fault, Shared& shared) {
  shared.happened.store(now());
  if (fault == Fault::kill) kill(getpid(), SIGKILL);
  if (fault == Fault::exit) _exit(0);
  kill(getpid(), SIGSTOP);
}

Bootstrap bootstrap_of(int rank, Shared& shared) {
  return {rank, ranks, [rank, &shared](std::string_view mine) {
            while (shared.gone.load() != 0) sched_yield();
            std::memcpy(shared.rank[rank].text, mine.data(), mine.size());
            shared.rank[rank].length = mine.size();
            ++shared.come;
            while (shared.come.load() != ranks) sched_yield();
            std::vector<std::string> all;
            for (const Shared::Rank& one : shared.rank) all.emplace_back(one.text, one.length);
            if (++shared.gone == ranks) {
              shared.come = 0;
              shared.gone = 0;
            } else {
              while (shared.come.load() == ranks) sched_yield();
            }
            return all;
          }};
}

/// Two kernels, or two collectives of the library, each of which all ranks meet in.
/// The first of them is a state, too.
Program two_sums(const World& world) {
  Program program("two", Mesh::over(world));
  const Dim n = program.dim("n", 64);
  const Value x = program.input("x", f32, {n}, local);
  const Value w = program.input("w", f32, {n}, local);
  program.output("y", all_reduce(x, sum).named("first"));
  program.state("s", f32, {n}, local);
  program.output("z", all_reduce(w, sum).named("second"));
  return program;
}

void run_step(Executable& step, int size = ranks) {
  const std::vector<float> ones(64, 1), sums(64, static_cast<float>(size));
  step.write("x", ones);
  step.write("w", ones);
  step.run();
  for (const char* output : {"y", "z"}) {
    if (elements_of(step, output) != sums) throw std::logic_error("a wrong result");
  }
}

Schedule schedule_of(const FaultCase& c) {
  Schedule schedule("two");
  if (c.phase != Phase::library) {
    schedule.fuse("one", "all_reduce", {"first"}, c.knobs);
    schedule.fuse("other", "all_reduce", {"second"}, c.knobs);
  }
  return schedule;
}

/// What survivors do.
void go_on(const World& old, const FaultCase& c) {
  const World world = old.shrink();
  if (world.size() != ranks - 1) throw std::logic_error("the next world has another size");
  if (world.rank() != old.rank() - (old.rank() > lost ? 1 : 0))
    throw std::logic_error("ranks have changed their order");
  Executable step = compile(two_sums(world), schedule_of(c), world);
  for (int turn = 0; turn < 3; ++turn) run_step(step, ranks - 1);
}

/// What all ranks do until one of them is lost.
void run_rank(int rank, const World& world, const FaultCase& c, Shared& shared) {
  const Schedule schedule = schedule_of(c);
  const Program program = two_sums(world);
  Executable step = compile(program, schedule, world);
  run_step(step);
  run_step(step);

  if (rank == lost) {
    const bool in_kernel = c.phase == Phase::inside || c.phase == Phase::between;
    if (in_kernel) {
      plan = {c.fault, c.phase == Phase::inside ? SIGUSR1 : SIGUSR2, &shared};
    } else if (c.fault == Fault::exception || c.fault == Fault::abort) {
      shared.happened = now();
      if (c.fault == Fault::exception) throw std::runtime_error("an exception of the application");
      world.abort("the data ran out");
      return;
    } else {
      happen(c.fault, shared);
    }
  }
  if (c.phase == Phase::compile) step = compile(program, Schedule("none"), world, {{"n", 64}});
  if (c.phase == Phase::checkpoint) step.save(std::getenv("CHECKPOINT_OF_TEST"));
  run_step(step);
  run_step(step);
}

}  // namespace

std::int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void on_signal(int signal) {
  if (plan.signal != signal) return;
  plan.signal = 0;
  happen(plan.fault, *plan.shared);
}

void run_case(int rank, const FaultCase& c, Shared& shared) {
  const World world = World::from(bootstrap_of(rank, shared));
  try {
    run_rank(rank, world, c, shared);
  } catch (const CommError&) {
    if (!c.shrinks || rank == lost) throw;
    go_on(world, c);
  }
}

void train(int rank, Shared& shared, const std::filesystem::path& directory) {
  constexpr int between_checkpoints = 5;
  World world = World::from(bootstrap_of(rank, shared));
  for (;;) {
    try {
      Executable step = test::compile_shipped(world, "momentum_sgd", "fused", 1000);
      step.write("w", std::vector<float>(1000, 1));
      step.write("m", std::vector<float>(step.count("m")));
      int done = 0;
      if (const auto found = step.load_latest(directory, {.may_be_first_start = true}))
        done = std::stoi(found->metadata.at("t"));
      while (done < steps_of_training) {
        if (rank == 0) shared.trained = done;
        step.write("g", std::vector<float>(1000, static_cast<float>(done % 7 - 3) / 8));
        step.run({{"lr", 0.1}});
        if (++done % between_checkpoints != 0) continue;
        step.save(directory / ("t" + std::to_string(done)),
                  {.metadata = {{"t", std::to_string(done)}}, .keep = 2});
      }
      std::ranges::copy(elements_of(step, "w"), shared.rank[rank].weights.begin());
      return;
    } catch (const CommError&) {
      if (world.size() < ranks) throw;
      world = world.shrink();
    }
  }
}

}  // namespace coconet::test::faults
