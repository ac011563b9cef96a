// Looking automatic schedules up, and choosing where nothing was measured.
#include "jit/tune/automatic.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/config/log.h"
#include "jit/run/compile.h"
#include "jit/tune/timing.h"
#include "jit/tune/tuner.h"
#include "jit/tune/tuning_file.h"
#include "sched/schedule.h"
#include "sched/tune/likely.h"

namespace coconet::jit {

namespace {

/// What is chosen for.
struct Asked {
  const Program& program;
  const ir::Graph& graph;
  Sizes sizes;  ///< of all symbols
  const Nodes& nodes;
  sched::Cluster cluster;  ///< the machine, as far as it is known
};

/// The machine as the tuning file has it, or a usual one of as many ranks.
sched::Cluster likely_cluster(const TuningFile& file, const Platform& platform, const Comm& comm,
                              int cores) {
  if (const sched::Cluster* const known = file.machine(comm.size(), cores)) return *known;
  sched::Cluster cluster =
      sched::load_cluster(platform.traits().immediate ? "host-2rank" : "dgx-h100");
  const int nodes = comm.size() % comm.nodes().count() == 0 ? comm.nodes().count() : 1;
  cluster.nodes = nodes;
  cluster.ranks_per_node = comm.size() / nodes;
  return cluster;
}

/// Where kernels of `chosen` would reach into the memory of other nodes, the same layouts without
/// kernels that exchange data.
void keep_on_nodes(const Asked& asked, ChosenSchedule& chosen) {
  const Schedule& schedule = chosen.schedule;
  try {
    require_on_nodes(sched::lower(*ir::graph_of(schedule.apply(asked.program).back())),
                     asked.nodes);
  } catch (const ScheduleError&) {
    chosen.why =
        fmt::format("ranks are on several nodes, where '{}' does not run", schedule.name());
    const sched::Steps steps{schedule.name() + "-without-exchanges",
                             steps_without_exchanges(asked.graph, sched::steps_of(schedule).steps,
                                                     asked.sizes, asked.cluster)};
    chosen.schedule = Schedule::parse(sched::to_json(steps));
  }
}

ChosenSchedule likely_schedule(const Asked& asked) {
  const char* const tune = "`coconet tune` measures, and so does COCONET_TUNE=on";
  ChosenSchedule chosen{Schedule("none"), ""};
  const auto shipped = sched::shipped_schedules_of(asked.program);
  const auto fused = std::ranges::find_if(shipped, [](const sched::Steps& one) {
    return one.name.ends_with("-fused") || one.name.ends_with("-hierarchical");
  });
  if (fused != shipped.end()) {
    chosen = {
        Schedule::parse(sched::to_json(*fused)),
        fmt::format("it ships, and nothing was measured of the program at these sizes; {}", tune)};
  } else {
    const auto steps = likely_steps(asked.graph, asked.sizes, asked.cluster);
    const sched::Steps all{steps.empty() ? "none" : asked.graph.name + "-predicted", steps};
    chosen = {
        Schedule::parse(sched::to_json(all)),
        fmt::format("it is predicted to be quick, and nothing was measured of the program at these "
                    "sizes; {}",
                    tune)};
  }
  return chosen;
}

/// Says what a search does that the application waits for, on rank 0.
class Narrator {
 public:
  Narrator(const Program& program, const Sizes& sizes, double seconds) : program_(program) {
    say("the schedules of '{}' are measured, {}, for {:g} s at most", program.name(),
        ir::extents_text(sizes), seconds);
  }
  void progress(const TuneOptions::Progress& now) {
    constexpr std::chrono::seconds pause{5};
    const auto time = std::chrono::steady_clock::now();
    if (now.done == 0 || time < said_ + pause) return;
    said_ = time;
    say("{} of {} schedules of '{}' are measured, the quickest so far takes {:.4g} ms", now.done,
        now.all, program_.name(), now.best_ms);
  }
  void finished(const Tuned& tuned) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    if (tuned.sizes.empty()) {
      say("after {:.1f} s nothing is measured yet: COCONET_TUNE_S gives it longer", took.count());
      return;
    }
    const TunedSize& size = tuned.sizes.back();
    say("after {:.1f} s, the quickest takes {:.4g} ms, {:.2f} of the time without a schedule{}",
        took.count(), size.best_ms, size.unfused_ratio,
        size.doubt.empty() ? "" : fmt::format("; uncertain: {}", size.doubt));
  }

 private:
  /// At the level that is printed unless the user says otherwise: the application stands still.
  template <class... Arguments>
  void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    log_warn("COCONET_TUNE=on: " + fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  const Program& program_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), said_ = begin_;
};

/// Collective: measures what the program is to be scheduled by, for as long as COCONET_TUNE_S says,
/// and keeps what it finds.
void measure(const Program& program, const World& world, const Sizes& sizes,
             const ParameterLists& lists, const sched::Cluster& cluster, bool is_known) {
  Comm& comm = comm_of(world);
  const auto limit = comm.config().tune_limit;
  const auto end = std::chrono::steady_clock::now() + limit;
  std::optional<Narrator> narrator;
  if (comm.rank() == 0)
    narrator.emplace(program, sizes, std::chrono::duration<double>(limit).count());
  TuneOptions options;
  options.lists = lists;
  options.cluster = cluster;
  // Predictions for another machine rule out less.
  if (!is_known) options.hopeless *= 2;
  options.progress = [&](const TuneOptions::Progress& now) { narrator->progress(now); };
  options.interrupted = [end] { return std::chrono::steady_clock::now() >= end; };
  const Tuned tuned = tune_and_keep(program, world, {sizes}, options);
  if (narrator) narrator->finished(tuned);
}

}  // namespace

ChosenSchedule choose_schedule(const Program& program, const World& world, const Sizes& sizes,
                               const ParameterLists& lists) {
  Comm& comm = comm_of(world);
  const Platform* platform = nullptr;
  const ir::Graph& graph = *ir::graph_of(program);
  Sizes resolved;
  together(comm, [&] {
    require_mesh(program, world);
    platform = &platform_of(comm);
    resolved = ir::resolve_sizes(graph, sizes, lists);
  });
  const int cores = platform->cores_of(comm, comm.config()).count;
  const std::string digest = digest_of(program, cores);
  const std::string& tune = comm.config().tune;
  TuningFile file;
  if (tune != "off") file = read_tuning(comm, *platform, comm.config());
  const auto look = [&]() -> const TuningFile::Choice* {
    const TuningFile::TunedProgram* const known = file.find(digest);
    return known == nullptr ? nullptr : nearest_choice(*known, resolved);
  };
  const TuningFile::Choice* choice = look();
  const auto is_worth_measuring = [&] {
    return choice == nullptr || (choice->preempted >= is_busy && is_machine_quiet(comm));
  };
  if (tune == "on" && file.on_disk != TuningFile::OnDisk::unreadable && is_worth_measuring()) {
    measure(program, world, resolved, lists, likely_cluster(file, *platform, comm, cores),
            file.machine(comm.size(), cores) != nullptr);
    file = read_tuning(comm, *platform, comm.config());
    choice = look();
  }
  ChosenSchedule chosen{Schedule("none"), ""};
  together(comm, [&] {
    const Asked asked{program, graph, resolved, comm.nodes(),
                      likely_cluster(file, *platform, comm, cores)};
    if (choice == nullptr) {
      chosen = likely_schedule(asked);
    } else {
      chosen = {
          Schedule::parse(choice->schedule),
          fmt::format(
              "it took {:.2f} of the time without a schedule, {:.4g} ms, when it was measured{}",
              choice->over_unfused, choice->ms,
              choice->doubt.empty() ? "" : fmt::format("; uncertain: {}", choice->doubt)),
          choice->collectives_by_mpi};
    }
    keep_on_nodes(asked, chosen);
  });
  return chosen;
}

}  // namespace coconet::jit
