// `coconet tune`: measures a program's schedules on the ranks of a world and writes the quickest.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/launch.h"
#include "cli/program_spec.h"
#include "cli/tune_report.h"
#include "coconet/config.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "ir/json/text.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/config/files.h"
#include "jit/tune/calibrate.h"
#include "jit/tune/tuner.h"

namespace coconet::cli {
namespace {

using Verdict = jit::PairedRatios::Verdict;

void show_progress(const jit::TuneOptions::Progress& progress) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, "\r\x1b[K%zu of %zu measured, best so far %.4g ms, %.0f s left",
               progress.done, progress.all, progress.best_ms, progress.seconds_left);
  std::fflush(stderr);
}

void clear_progress() {
  if (isatty(STDERR_FILENO) == 1) std::fputs("\r\x1b[K", stderr);
}

void print_head() {
  std::printf("%-28s %10s %14s %14s %10s %12s  %s\n", "size", "ms", "predicted ms", "over unfused",
              "measured", "correlation", "schedule");
  std::fflush(stdout);
}

/// The row of the size that was finished last; under mpirun it is all that shows progress.
void print_row(const jit::Tuned& tuned) {
  const std::vector<jit::Variant> all = lettered(tuned);
  const jit::TunedSize& size = tuned.sizes.back();
  double predicted = 0;
  for (const jit::Trial& trial : size.trials) {
    if (trial.variant == size.best) predicted = trial.predicted_us / 1000;
  }
  const auto place = std::ranges::find(all, size.best) - all.begin();
  clear_progress();
  std::printf("%-28s %10.4g %14.4g %14.2f %10zu %12.2f  %s%s\n",
              ir::extents_text(size.sizes).c_str(), size.best_ms, predicted, size.unfused_ratio,
              size.trials.size(), jit::rank_correlation(size.trials),
              letter(static_cast<std::size_t>(place)).c_str(),
              size.doubt.empty() ? "" : fmt::format(", uncertain: {}", size.doubt).c_str());
  std::fflush(stdout);
}

/// What was found where everything was measured.
void print_all(const jit::Tuned& tuned) {
  bool is_first = true;
  for (const jit::TunedSize& size : tuned.sizes) {
    if (!size.all) continue;
    if (std::exchange(is_first, false)) {
      std::printf("%-28s %10s %16s %12s %12s %14s\n", "all candidates", "measured",
                  "choice over best", "over MPI", "correlation", "repeatability");
    }
    const auto& over_mpi = size.all->choice_over_mpi;
    std::printf("%-28s %10zu %16.3f %12s %12.2f %14.2f\n", ir::extents_text(size.sizes).c_str(),
                size.all->trials.size(), size.all->choice_over_best,
                over_mpi ? fmt::format("{:.3f}", *over_mpi).c_str() : "-",
                jit::rank_correlation(size.all->trials), size.all->repeatability);
  }
}

/// Where the search did not begin.
void print_only_measured(double seconds) {
  std::printf("interrupted after %.1f s, while the machine was measured%s\n", seconds,
              config().tune_file.empty()
                  ? ""
                  : "; what is measured is kept, and the next time goes on from there");
}

/// What is refused, each with its reason, as one line.
void print_refused(const char* what, const std::vector<std::string>& refused) {
  if (refused.empty()) return;
  std::printf("%zu schedule%s cannot be %s, such as %s%s\n", refused.size(),
              refused.size() == 1 ? "" : "s", what, refused.front().c_str(),
              refused.size() == 1 ? "" : "; --json has all of them");
}

void print_foot(const jit::Tuned& tuned, double seconds) {
  if (!tuned.whole && tuned.sizes.empty() && tuned.calibration_s > 0)
    return print_only_measured(tuned.calibration_s);
  const std::vector<jit::Variant> all = lettered(tuned);
  const sched::Space& space = tuned.space;
  for (std::size_t i = 0; i < all.size(); ++i)
    std::printf("  %s: %s\n", letter(i).c_str(), jit::describe(space, all[i]).c_str());
  std::printf(
      "%zu programs generated, of which %zu were there and %zu had the plan of another: %zu "
      "candidates; left out of measurements: %zu predicted to be far slower, %zu with overlaps "
      "without room, %zu beyond the best few; %zu kernels; %.1f s\n",
      space.generated, space.same_program, space.same_plan, space.candidates.size(),
      tuned.left_out.hopeless, tuned.left_out.no_room, tuned.left_out.many, tuned.kernels, seconds);
  print_all(tuned);
  print_refused("planned", space.unplanned);
  print_refused("measured", tuned.impossible);
  if (tuned.calibration_s > 0)
    std::printf("%.1f s of these measured the machine, as coconet calibrate does\n",
                tuned.calibration_s);
  if (!tuned.whole) std::printf("interrupted: the best so far\n");
}

/// The best of the last size.
void write(const std::string& file, const jit::Tuned& tuned, const Program& program) {
  if (file.empty() || tuned.sizes.empty()) return;
  jit::write_atomically(file, jit::best_schedule(program, tuned, tuned.sizes.back()).json(),
                        "--out");
}

nlohmann::ordered_json as_json(const sched::Space& space, const std::vector<jit::Trial>& trials) {
  auto all = nlohmann::ordered_json::array();
  for (const jit::Trial& trial : trials) {
    nlohmann::ordered_json one = {{"schedule", jit::describe(space, trial.variant)},
                                  {"ms", trial.ms},
                                  {"over_unfused", trial.relative}};
    if (trial.verdict != Verdict::open)
      one["beside_best_so_far"] = trial.verdict == Verdict::quicker ? "quicker" : "slower";
    if (trial.predicted_us > 0) one["predicted_ms"] = trial.predicted_us / 1000;
    all.push_back(std::move(one));
  }
  return all;
}

std::string as_json(const jit::Tuned& tuned, const Program& program, double seconds) {
  auto sizes = nlohmann::ordered_json::array();
  for (const jit::TunedSize& size : tuned.sizes) {
    sizes.push_back({{"sizes", size.sizes},
                     {"best", jit::describe(tuned.space, size.best)},
                     {"best_ms", size.best_ms},
                     {"over_unfused", size.unfused_ratio},
                     {"preempted", size.preempted},
                     {"rank_correlation", jit::rank_correlation(size.trials)},
                     {"trials", as_json(tuned.space, size.trials)}});
    if (!size.doubt.empty()) sizes.back()["doubt"] = size.doubt;
    if (!size.all) continue;
    nlohmann::ordered_json all = {{"trials", as_json(tuned.space, size.all->trials)},
                                  {"rank_correlation", jit::rank_correlation(size.all->trials)},
                                  {"repeatability", size.all->repeatability},
                                  {"choice_over_best", size.all->choice_over_best}};
    if (size.all->choice_over_mpi) all["choice_over_mpi"] = *size.all->choice_over_mpi;
    sizes.back()["all"] = std::move(all);
  }
  const sched::Space& space = tuned.space;
  return ir::json_text({{"program", program.name()},
                        {"ranks", program.mesh().size()},
                        {"seconds", seconds},
                        {"generated", space.generated},
                        {"same_program", space.same_program},
                        {"same_plan", space.same_plan},
                        {"candidates", space.candidates.size()},
                        {"left_out",
                         {{"hopeless", tuned.left_out.hopeless},
                          {"no_room", tuned.left_out.no_room},
                          {"many", tuned.left_out.many}}},
                        {"kernels", tuned.kernels},
                        {"unplanned", space.unplanned},
                        {"impossible", tuned.impossible},
                        {"sizes", std::move(sizes)}},
                       2) +
         "\n";
}

int tune_on(const World& world, const TuneOptions& options, const ResolvedSpec& resolved) {
  const auto begin = std::chrono::steady_clock::now();
  const Program program = resolved.program(world.size());
  jit::TuneOptions how;
  how.lists = options.lists;
  how.exhaustive = options.exhaustive;
  how.progress = show_progress;
  how.interrupted = was_interrupted;
  how.finished_size = [&](const jit::Tuned& tuned) {
    print_row(tuned);
    write(options.out, tuned, program);
  };
  listen_for_interrupts();
  std::vector<Sizes> sizes;
  const auto [dim, extents] = sizes_to_try(*ir::graph_of(program), options.sizes);
  for (const std::int64_t extent : extents) {
    sizes.push_back(options.spec.sizes);
    if (!dim.empty()) sizes.back()[dim] = extent;
  }
  if (!options.cluster.empty()) {
    how.cluster = sched::load_cluster(options.cluster);
    how.cluster->nodes = 1;
    how.cluster->ranks_per_node = world.size();
  }
  if (world.rank() == 0) print_head();
  const jit::Tuned tuned = jit::tune_and_keep(program, world, sizes, how);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  jit::together(jit::comm_of(world), [&] {
    if (world.rank() != 0) return;
    clear_progress();
    print_foot(tuned, took.count());
    if (!options.json.empty())
      jit::write_atomically(options.json, as_json(tuned, program, took.count()), "--json");
    if (!options.report.empty()) {
      const std::string device = jit::device_of(jit::platform_of(jit::comm_of(world)));
      jit::write_atomically(options.report, tune_report(program, tuned, device), "--report");
    }
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
