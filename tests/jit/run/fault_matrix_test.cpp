// What becomes of four ranks, which are processes, when one of them is killed, stopped, ends or
// gives up: by how its job exchanges data, and by what the others do at that time. The kernels of
// this test raise a signal at the places where a rank is to be lost.
//
// docs/reliability.md has a table of what came out, which COCONET_UPDATE_GOLDEN=1 writes anew.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "coconet/coconet.h"
#include "golden.h"
#include "jit/platform/planted_compiler.h"
#include "jit/run/fault_ranks.h"
#include "sample.h"
#include "sched/knobs.h"

using namespace coconet;
using namespace coconet::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto timeout = 1s;  // COCONET_TIMEOUT_S
constexpr auto pause_of_short_stop = 300ms;

using faults::Fault;
using faults::FaultCase;
using faults::lost;
using faults::now;
using faults::Phase;
using faults::ranks;
using faults::Shared;

/// In the order of the enumerations.
constexpr std::array names_of_faults{"killed (SIGKILL)",
                                     "stopped (SIGSTOP), longer than COCONET_TIMEOUT_S",
                                     "stopped, shorter than that",
                                     "exits without an end of its world",
                                     "an exception of its application",
                                     "`World::abort`"};
constexpr std::array names_of_phases{"in `compile`",
                                     "before a step",
                                     "inside a kernel",
                                     "between two kernels of a step",
                                     "in a library collective",
                                     "in `save` of a checkpoint"};

const char* name_of(Fault fault) {
  return names_of_faults.at(static_cast<std::size_t>(fault));
}

const char* name_of(Phase phase) {
  return names_of_phases.at(static_cast<std::size_t>(phase));
}

/// What the ranks of a job do, and what happens to one of them.
struct FaultyJob {
  std::function<void(int rank, Shared& shared)> body;
  Fault fault = Fault::kill;
  /// Of a training: after which step that is, or a moment later; negative: never.
  int kill_after = -1;
};

[[noreturn]] void be_rank(int rank, const FaultyJob& job, Shared& shared) {
  std::signal(SIGUSR1, faults::on_signal);
  std::signal(SIGUSR2, faults::on_signal);
  std::signal(SIGTERM, SIG_DFL);
  int code = 0;
  try {
    job.body(rank, shared);
  } catch (const std::exception& error) {
    std::strncpy(shared.rank[rank].what, error.what(), sizeof(Shared::Rank::what) - 1);
    code = 1;
  }
  shared.rank[rank].ended = now();
  _exit(code);
}

struct JobOutcome {
  std::vector<std::string> what = std::vector<std::string>(ranks);
  std::vector<int> codes = std::vector<int>(ranks, -1);  // -1: by a signal
  double seconds = 0;                                    // until the last survivor had ended
  bool hangs = false;
  std::array<float, 1000> weights{};
};

/// Their processes, by rank.
std::array<pid_t, ranks> start_ranks(const FaultyJob& job,
                                     const std::map<std::string, std::string>& environment,
                                     Shared& shared) {
  std::array<pid_t, ranks> pids{};
  for (int rank = 0; rank < ranks; ++rank) {
    pids[rank] = fork();
    if (pids[rank] != 0) continue;
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    unsetenv("COCONET_UPDATE_GOLDEN");
    be_rank(rank, job, shared);
  }
  return pids;
}

JobOutcome outcome_of(const FaultyJob& job, const std::map<std::string, std::string>& environment) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& shared = *new (memory) Shared{};
  std::array<pid_t, ranks> pids = start_ranks(job, environment, shared);
  JobOutcome outcome;
  int left = ranks;
  Clock::time_point stopped{};
  const auto deadline = Clock::now() + 60s;
  while (left > (pids[lost] == 0 ? 0 : 1) || (job.fault != Fault::stop && left > 0)) {
    for (int rank = 0; rank < ranks; ++rank) {
      int status = 0;
      if (pids[rank] == 0 || waitpid(pids[rank], &status, WNOHANG | WUNTRACED) == 0) continue;
      if (WIFSTOPPED(status)) {
        stopped = Clock::now();
        continue;
      }
      if (WIFEXITED(status)) outcome.codes[rank] = WEXITSTATUS(status);
      pids[rank] = 0;
      --left;
    }
    if (job.kill_after >= 0 && shared.happened == 0 && shared.trained >= job.kill_after &&
        pids[lost] != 0) {
      shared.happened = now();
      kill(pids[lost], SIGKILL);
    }
    if (job.fault == Fault::pause && stopped != Clock::time_point{} &&
        Clock::now() - stopped > pause_of_short_stop) {
      kill(pids[lost], SIGCONT);
      stopped = {};
    }
    if (Clock::now() > deadline) {
      outcome.hangs = true;
      for (const pid_t pid : pids) {
        if (pid != 0) kill(pid, SIGKILL);
      }
    }
    std::this_thread::sleep_for(1ms);
  }
  if (pids[lost] != 0) {
    kill(pids[lost], SIGKILL);
    waitpid(pids[lost], nullptr, 0);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    outcome.what[rank] = shared.rank[rank].what;
    if (rank == lost) continue;
    outcome.seconds = std::max(
        outcome.seconds, static_cast<double>(shared.rank[rank].ended - shared.happened) / 1e9);
  }
  outcome.weights = shared.rank[0].weights;
  munmap(memory, sizeof(Shared));
  return outcome;
}

/// Whether a fault can happen in a phase: what an application does is outside kernels.
bool fits(Phase phase, Fault fault) {
  const bool in_kernel = phase == Phase::inside || phase == Phase::between;
  return !in_kernel || (fault != Fault::exception && fault != Fault::abort);
}

/// What survivors say, as a part of their sentence.
std::string expected(const FaultCase& c) {
  switch (c.fault) {
    case Fault::kill:
    case Fault::exit:
      return "for rank 2, whose process has ended";
    case Fault::stop:
      return "for rank 2, which a signal or a debugger has stopped";
    case Fault::exception:
      return "rank 2 failed: an exception ended its part";
    default:
      return "rank 2 failed: the data ran out";
  }
}

void check(const FaultCase& c, const JobOutcome& outcome) {
  INFO(c.knobs.algorithm << " " << c.knobs.protocol << ", " << name_of(c.phase) << ", "
                         << name_of(c.fault) << ", " << outcome.seconds << " s");
  CHECK_FALSE(outcome.hangs);
  if (c.fault == Fault::pause) {
    CHECK(outcome.codes == std::vector<int>(ranks, 0));
    for (const std::string& what : outcome.what) CHECK(what.empty());
    return;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == lost) continue;
    CHECK(outcome.codes[rank] == 1);
    // A survivor may wait for another one, which had to end first.
    const bool is_named =
        outcome.what[rank].find(expected(c)) != std::string::npos ||
        outcome.what[rank].find("when the process of rank 2 had ended") != std::string::npos;
    INFO("rank " << rank << ": " << outcome.what[rank]);
    CHECK(is_named);
  }
  const double limit =
      c.fault == Fault::stop ? std::chrono::duration<double>(timeout + 2s).count() : 1;
  constexpr double busy = 3;  // other tests run beside this one
  CHECK((!runs_all() || outcome.seconds < busy * limit));
}

/// What jobs have left behind, whose temporary files are in `directory`.
std::set<std::string> leftovers(const std::filesystem::path& directory) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    files.insert(entry.path().string());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with("coconet")) files.insert(entry.path());
  }
  return files;
}

/// Without what differs from run to run.
std::string sentence_of(const JobOutcome& outcome) {
  return std::regex_replace(outcome.what[0], std::regex("(flag|found) [0-9]+"), "$1 N");
}

void require_survivors(const JobOutcome& outcome) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == lost) continue;
    INFO("rank " << rank << ": " << outcome.what[rank]);
    CHECK(outcome.codes[rank] == 0);
  }
}

}  // namespace

TEST_CASE("four ranks when one of them is lost") {
  const PlantedCompiler planted(faults::raises_signals);
  const PlantedCompiler plain("");
  const ScratchDirectory cache, temporary, checkpoints;
  const auto before = leftovers(temporary.path());
  std::vector<Knobs> all;
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      Knobs knobs;
      knobs.algorithm = algorithm.name;
      knobs.protocol = protocol.name;
      if (knobs.algorithm != "direct" || knobs.protocol != "simple") {
        if (sched::works_in_place(knobs)) continue;  // as direct and simple, but for the switch
      }
      all.push_back(knobs);
    }
  }

  struct Row {
    int cases = 0;
    double most = 0;
    std::string sentence;
  };
  std::map<std::pair<std::size_t, std::size_t>, Row> rows;
  for (std::size_t p = 0; p < names_of_phases.size(); ++p) {
    for (std::size_t f = 0; f < names_of_faults.size(); ++f) {
      for (const Knobs& knobs : all) {
        const FaultCase c{knobs, static_cast<Phase>(p), static_cast<Fault>(f)};
        if (!fits(c.phase, c.fault)) continue;
        // No kernel of the job matters there.
        const bool is_one = c.phase == Phase::library || c.phase == Phase::checkpoint;
        if (is_one && &knobs != &all.front()) continue;
        if (!draw()) continue;
        const JobOutcome outcome = outcome_of(
            {[&](int rank, Shared& shared) { faults::run_case(rank, c, shared); }, c.fault},
            {{"COCONET_CXX", c.phase == Phase::library ? plain.path() : planted.path()},
             {"COCONET_CACHE_DIR", cache.path().string()},
             {"CHECKPOINT_OF_TEST", (checkpoints.path() / "one").string()},
             {"TMPDIR", temporary.path().string()},
             {"COCONET_TIMEOUT_S", "1"}});
        check(c, outcome);
        CHECK(leftovers(temporary.path()) == before);
        Row& row = rows[{f, p}];
        ++row.cases;
        row.most = std::max(row.most, outcome.seconds);
        if (row.sentence.empty()) row.sentence = sentence_of(outcome);
      }
    }
  }

  if (std::getenv("COCONET_UPDATE_GOLDEN") == nullptr || one_in() != 1) return;
  const std::string document = "docs/reliability.md";
  std::string table =
      "| what happens to rank 2 | when | jobs | longest | what rank 0 says |\n"
      "|---|---|---|---|---|\n";
  for (const auto& [key, row] : rows) {
    table += fmt::format("| {} | {} | {} | {:.2f} s | {} |\n", names_of_faults[key.first],
                         names_of_phases[key.second], row.cases, row.most,
                         row.sentence.empty() ? "nothing: all results are right" : row.sentence);
  }
  check_golden(document, with_table(source_text(document), "<!-- the fault matrix -->\n",
                                    "<!-- its end -->\n", table));
}

TEST_CASE("the ranks that are left make a world, and go on in it") {
  const PlantedCompiler planted(faults::raises_signals);
  const ScratchDirectory cache;
  for (const Fault fault : {Fault::kill, Fault::stop, Fault::exit}) {
    for (const Phase phase : {Phase::before, Phase::inside}) {
      const FaultCase c{{}, phase, fault, true};
      const JobOutcome outcome =
          outcome_of({[&](int rank, Shared& shared) { faults::run_case(rank, c, shared); }, fault},
                     {{"COCONET_CXX", planted.path()},
                      {"COCONET_CACHE_DIR", cache.path().string()},
                      {"COCONET_TIMEOUT_S", "1"}});
      INFO(name_of(phase) << ", " << name_of(fault) << ", " << outcome.seconds << " s");
      CHECK_FALSE(outcome.hangs);
      require_survivors(outcome);
    }
  }
}

TEST_CASE("a training goes on in the living processes from its last checkpoint") {
  const ScratchDirectory directory;
  const auto run = [&](const std::string& name, int kill_after) {
    const std::filesystem::path checkpoints = directory.path() / name;
    return outcome_of({[&](int rank, Shared& shared) { faults::train(rank, shared, checkpoints); },
                       Fault::kill, kill_after},
                      {{"COCONET_CACHE_DIR", (directory.path() / "cache").string()},
                       {"COCONET_TIMEOUT_S", "10"}});
  };
  const JobOutcome whole = run("whole", -1);
  REQUIRE(whole.codes == std::vector<int>(ranks, 0));
  REQUIRE(whole.weights[0] != 1);
  const auto kills = static_cast<unsigned>(runs_all() ? 20 : 4);
  std::mt19937 random(static_cast<unsigned>(seed()));
  unsigned lost_in_training = 0;
  for (unsigned trial = 0; trial < kills; ++trial) {
    const int moment = static_cast<int>(random() % (faults::steps_of_training * 9 / 10));
    const JobOutcome outcome = run("trial" + std::to_string(trial), moment);
    if (outcome.codes[lost] == -1) ++lost_in_training;
    INFO("killed after step " << moment);
    require_survivors(outcome);
    CHECK(outcome.weights == whole.weights);
  }
  CHECK(lost_in_training > 0);
}
