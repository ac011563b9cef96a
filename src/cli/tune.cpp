// `coconet tune`: measures a program's schedules on the ranks of a world and writes the quickest.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/program_spec.h"
#include "coconet/error.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "jit/comm/comm.h"
#include "jit/tune/tuner.h"

namespace coconet::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C ends the search, a second one the process. mpirun makes a SIGTERM of it, and
/// kills what is left a second later.
void listen_for_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void show_progress(const jit::TuneOptions::Progress& progress) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, "\r\x1b[K%zu of %zu measured, best so far %.4g ms, %.0f s left",
               progress.done, progress.all, progress.best_ms, progress.seconds_left);
  std::fflush(stderr);
}

void clear_progress() {
  if (isatty(STDERR_FILENO) == 1) std::fputs("\r\x1b[K", stderr);
}

std::string extents_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, extent] : sizes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, extent);
  return text.empty() ? "as it is" : text;
}

void print_sizes(const jit::Tuned& tuned, std::vector<std::size_t>& winners) {
  std::printf("%-28s %10s %14s %14s %10s %12s  %s\n", "size", "ms", "predicted ms", "over unfused",
              "measured", "correlation", "schedule");
  for (const jit::TunedSize& size : tuned.sizes) {
    double predicted = 0;
    for (const jit::Trial& trial : size.trials) {
      if (trial.candidate == size.best) predicted = trial.predicted_us / 1000;
    }
    const auto known = std::find(winners.begin(), winners.end(), size.best);
    const auto letter = static_cast<std::size_t>(known - winners.begin());
    if (known == winners.end()) winners.push_back(size.best);
    std::printf("%-28s %10.4g %14.4g %14.2f %10zu %12.2f  %c\n", extents_text(size.sizes).c_str(),
                size.best_ms, predicted, size.unfused_ratio, size.trials.size(),
                jit::rank_correlation(size.trials), static_cast<char>('A' + letter % 26));
  }
}

void print(const jit::Tuned& tuned, double seconds) {
  std::vector<std::size_t> winners;
  print_sizes(tuned, winners);
  const sched::Space& space = tuned.space;
  for (std::size_t i = 0; i < winners.size(); ++i) {
    const auto& steps = space.candidates[winners[i]].steps;
    std::printf("  %c: %s\n", static_cast<char>('A' + i % 26),
                steps.empty() ? "no steps" : sched::to_string(steps).c_str());
  }
  std::printf(
      "%zu programs generated, of which %zu were there and %zu had the plan of another: %zu "
      "candidates; %zu measurements left out by prediction; %zu kernels; %.1f s\n",
      space.generated, space.same_program, space.same_plan, space.candidates.size(),
      tuned.predicted_away, tuned.kernels, seconds);
  for (const std::string& one : space.unplanned)
    std::printf("cannot be planned: %s\n", one.c_str());
  for (const std::string& one : tuned.impossible)
    std::printf("cannot be measured: %s\n", one.c_str());
  if (!tuned.whole) std::printf("interrupted: the best so far\n");
}

/// The best of the last size.
void write(const std::string& file, const jit::Tuned& tuned, const std::string& program) {
  if (file.empty() || tuned.sizes.empty()) return;
  const sched::Candidate& best = tuned.space.candidates[tuned.sizes.back().best];
  std::ofstream stream(file, std::ios::binary);
  stream << jit::schedule_of(best, program + "-tuned").json();
  stream.close();
  if (!stream) {
    throw BackendError("Cannot write the file '" + file +
                       "' of --out: is its directory there, and writable?");
  }
}

int tune_on(const World& world, const TuneOptions& options, const ResolvedSpec& resolved) {
  const auto begin = std::chrono::steady_clock::now();
  const Program program = resolved.program(world.size());
  jit::TuneOptions how;
  how.sliceable = resolved.sliceable_states();
  how.sliceable.insert(options.sliceable.begin(), options.sliceable.end());
  if (options.exhaustive) how.hopeless = 0;
  how.progress = show_progress;
  how.interrupted = [] { return interrupted != 0; };
  how.finished_size = [&](const jit::Tuned& tuned) { write(options.out, tuned, program.name()); };
  listen_for_interrupts();
  std::vector<Sizes> sizes;
  const auto [dim, extents] = sizes_to_try(*program.graph(), options.sizes);
  for (const std::int64_t extent : extents) {
    sizes.push_back(options.spec.sizes);
    if (!dim.empty()) sizes.back()[dim] = extent;
  }
  sched::Cluster cluster = sched::load_cluster(options.cluster);
  cluster.nodes = 1;
  cluster.ranks_per_node = world.size();
  const jit::Tuned tuned = jit::tune(program, world, cluster, sizes, how);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  jit::together(*world.comm(), [&] {
    if (world.rank() != 0) return;
    clear_progress();
    print(tuned, took.count());
  });
  return exit_ok;
}

}  // namespace

int tune(const TuneOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const World world = launch().by_mpi ? World::mpi() : World::self();
  return guarded(world, [&] { return tune_on(world, options, resolved); });
}

}  // namespace coconet::cli
