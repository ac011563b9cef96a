// `coconet sim`: predicts how long a program takes on a cluster that need not be at hand.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/program_spec.h"
#include "cli/tune_report.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "sched/cost/estimate.h"
#include "sched/schedule.h"
#include "sched/tune/space.h"

namespace coconet::cli {
namespace {

using sched::Cluster;
using sched::Estimate;

std::string milliseconds(double us) {
  return fmt::format("{:.4g}", us / 1000);
}

/// One way to run the program.
struct Plan {
  std::string name;
  sched::Plan plan;
};

void print_steps(const Estimate& estimate) {
  std::printf("%-32s %-14s %10s %10s %10s %10s %10s  %s\n", "step", "exchange", "ms", "latency",
              "memory", "links", "arithmetic", "bound");
  for (const sched::StepEstimate& step : estimate.steps) {
    std::printf("%-32s %-14s %10s %10s %10s %10s %10s  %s\n", step.name.c_str(), step.way.c_str(),
                milliseconds(step.total()).c_str(), milliseconds(step.latency).c_str(),
                milliseconds(step.memory).c_str(), milliseconds(step.links).c_str(),
                milliseconds(step.arithmetic).c_str(), std::string(step.bound()).c_str());
  }
  std::printf("%-32s %-14s %10s\n", "whole step", "", milliseconds(estimate.us).c_str());
  if (!estimate.problem.empty()) std::printf("it cannot run there: %s\n", estimate.problem.c_str());
}

/// The schedules of one program beside each other, a row for each size.
class Table {
 public:
  Table(std::vector<Plan> plans, sched::Space space, const Cluster& cluster)
      : plans_(std::move(plans)), space_(std::move(space)), cluster_(cluster) {}

  void print_head(const std::string& dim) const {
    std::printf("%12s", dim.c_str());
    for (const Plan& plan : plans_) std::printf(" %24s", plan.name.c_str());
    std::printf(" %12s\n", "best");
  }

  void print_row(const std::string& extent, const ir::Sizes& sizes) {
    std::printf("%12s", extent.c_str());
    for (const Plan& plan : plans_) {
      const Estimate found = estimate(plan.plan, sizes, cluster_);
      std::printf(" %24s", found.problem.empty() ? milliseconds(found.us).c_str() : "-");
      if (!found.problem.empty()) note(plan.name + " cannot run there: " + found.problem);
    }
    std::size_t best = space_.candidates.size();
    double us = 0;
    for (std::size_t i = 0; i < space_.candidates.size(); ++i) {
      const Estimate found = estimate(space_.candidates[i].plan, sizes, cluster_);
      const bool is_better = best == space_.candidates.size() || found.us < us;
      if (!found.problem.empty() || !is_better) continue;
      best = i;
      us = found.us;
    }
    if (best == space_.candidates.size()) {
      std::printf(" %12s\n", "-");
    } else {
      std::printf(" %12s  %s\n", milliseconds(us).c_str(), letter_of(best).c_str());
    }
  }

  void print_foot() const {
    std::printf("best is the quickest of %zu candidates%s\n", space_.candidates.size(),
                letters_.empty() ? "" : ":");
    for (std::size_t i = 0; i < letters_.size(); ++i) {
      const auto& steps = space_.candidates[letters_[i]].steps;
      std::printf("  %s: %s\n", letter(i).c_str(),
                  steps.empty() ? "no steps" : sched::to_string(steps).c_str());
    }
    for (const std::string& one : notes_) std::printf("%s\n", one.c_str());
  }

 private:
  std::string letter_of(std::size_t candidate) {
    const auto found = std::ranges::find(letters_, candidate);
    if (found != letters_.end()) return letter(static_cast<std::size_t>(found - letters_.begin()));
    letters_.push_back(candidate);
    return letter(letters_.size() - 1);
  }
  void note(const std::string& text) {
    if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
  }

  std::vector<Plan> plans_;
  sched::Space space_;
  const Cluster& cluster_;
  std::vector<std::size_t> letters_;  ///< candidates that were the best of some size
  std::vector<std::string> notes_;
};

ir::Sizes sizes_with(const ir::Graph& graph, const SimOptions& options, const std::string& dim,
                     std::int64_t extent) {
  ir::Sizes given = options.spec.sizes;
  if (!dim.empty()) given[dim] = extent;
  return ir::resolve_sizes(graph, given);
}

sched::Plan plan_of(const Program& program, const Schedule& schedule) {
  return sched::lower(*ir::graph_of(schedule.apply(program).back()));
}

}  // namespace

int sim(const SimOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const Cluster cluster = sched::load_cluster(options.cluster);
  const Program program = resolved.program(resolved.ranks().value_or(cluster.ranks()));
  const ir::Graph& graph = *ir::graph_of(program);
  const SizesToTry asked = sizes_to_try(graph, options.sizes);
  std::printf("%s on %s, %d ranks%s: milliseconds, predicted\n", graph.name.c_str(),
              cluster.name.c_str(), cluster.ranks(),
              cluster.nodes > 1 ? fmt::format(" of {} nodes", cluster.nodes).c_str() : "");
  if (!options.spec.schedule.empty()) {
    const sched::Plan plan = plan_of(program, resolved.schedule());
    for (const std::int64_t extent : asked.extents) {
      if (!asked.dim.empty())
        std::printf("\n%s = %lld\n", asked.dim.c_str(), static_cast<long long>(extent));
      print_steps(estimate(plan, sizes_with(graph, options, asked.dim, extent), cluster));
    }
    return exit_ok;
  }
  std::vector<Plan> plans;
  for (const Schedule& schedule : resolved.shipped_schedules())
    plans.push_back({schedule.name(), plan_of(program, schedule)});
  if (plans.empty()) plans.push_back({"no schedule", plan_of(program, resolved.schedule())});
  Table table(std::move(plans), sched::find_space(graph), cluster);
  table.print_head(asked.dim);
  for (const std::int64_t extent : asked.extents) {
    table.print_row(asked.dim.empty() ? "" : std::to_string(extent),
                    sizes_with(graph, options, asked.dim, extent));
  }
  table.print_foot();
  return exit_ok;
}

}  // namespace coconet::cli
