// Judging and explaining what a search found.
#include "jit/tune/tuned.h"

#include <fmt/format.h>

#include <cmath>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "sched/cost/estimate.h"
#include "sched/schedule.h"

namespace coconet::jit {
namespace {

/// Of equal values each has the mean of their ranks; less the mean of all.
std::vector<double> centered_ranks(const std::vector<double>& values) {
  std::vector<double> ranks;
  const double mean = (static_cast<double>(values.size()) - 1) / 2;
  for (const double value : values) {
    double below = 0, equal = 0;
    for (const double other : values) {
      below += other < value ? 1 : 0;
      equal += other == value ? 1 : 0;
    }
    ranks.push_back(below + (equal - 1) / 2 - mean);
  }
  return ranks;
}

std::string counted(std::size_t steps) {
  return fmt::format("{} kernel{} or collective{}", steps, steps == 1 ? "" : "s",
                     steps == 1 ? "" : "s");
}

}  // namespace

double rank_correlation(const std::vector<double>& one, const std::vector<double>& other) {
  const std::vector<double> a = centered_ranks(one), b = centered_ranks(other);
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += a[i] * b[i];
    of_a += a[i] * a[i];
    of_b += b[i] * b[i];
  }
  return of_a == 0 || of_b == 0 ? 0 : both / std::sqrt(of_a * of_b);
}

double rank_correlation(const std::vector<Trial>& trials) {
  std::vector<double> predicted, measured;
  for (const Trial& trial : trials) {
    if (trial.predicted_us == 0) continue;
    predicted.push_back(trial.predicted_us);
    measured.push_back(trial.relative);
  }
  return rank_correlation(predicted, measured);
}

Schedule best_schedule(const Program& program, const Tuned& tuned, const TunedSize& size) {
  const Schedule schedule = schedule_of(tuned.space, size.best, program.name() + "-tuned");
  sched::Steps steps = sched::steps_of(schedule);
  const auto facts_of = [&](const Program& scheduled) {
    const sched::Plan plan = sched::lower(*ir::graph_of(scheduled));
    return std::pair{plan.steps.size(), estimate(plan, size.extents, tuned.cluster).us};
  };
  const std::vector<Program> programs = schedule.apply(program);
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    try {
      const auto before = facts_of(programs[i]), after = facts_of(programs[i + 1]);
      steps.steps[i].why =
          fmt::format("predicted: {:.4g} ms in {}; before it {:.4g} ms in {}", after.second / 1000,
                      counted(after.first), before.second / 1000, counted(before.first));
    } catch (const ScheduleError&) {  // what only a later step makes a plan of
    }
  }
  return Schedule::parse(sched::to_json(steps));
}

}  // namespace coconet::jit
