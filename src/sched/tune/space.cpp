// The search for candidates.
#include "sched/tune/space.h"

#include <fmt/format.h>

#include <set>

#include "coconet/error.h"
#include "sched/tune/canonical.h"
#include "sched/tune/scheduled.h"

namespace coconet::sched {

namespace {

class Search {
 public:
  explicit Search(const SpaceRules& rules) : rules_(rules) {}

  Space run(const ir::Graph& graph) {
    reach({{}, graph});
    for (std::size_t next = 0; next < reached_.size() && space_.whole; ++next) {
      // What is reached moves when more is.
      const Scheduled from = reached_[next];
      for (Scheduled& to : followers(from)) {
        if (reached_.size() >= rules_.most || values_ >= rules_.most_values) {
          space_.whole = false;
          break;
        }
        ++space_.generated;
        reach(std::move(to));
      }
    }
    return std::move(space_);
  }

 private:
  void reach(Scheduled scheduled) {
    if (rules_.merge_programs && !programs_.insert(canonical_.key(scheduled.graph)).second) {
      ++space_.same_program;
      return;
    }
    add_candidate(scheduled);
    values_ += scheduled.graph.size();
    reached_.push_back(std::move(scheduled));
  }

  void add_candidate(const Scheduled& scheduled) {
    try {
      Plan plan = lower(scheduled.graph);
      if (rules_.merge_plans && !plans_.insert(canonical_.key(plan)).second) {
        ++space_.same_plan;
        return;
      }
      space_.candidates.push_back({scheduled.steps, scheduled.graph, std::move(plan)});
    } catch (const Error& error) {
      space_.unplanned.push_back(fmt::format("{}: {}", to_string(scheduled.steps), error.what()));
    }
  }

  [[nodiscard]] std::vector<Scheduled> followers(const Scheduled& from) const {
    const std::vector<Step> slicing = slicing_steps(from.graph);
    if (rules_.slice_all && !slicing.empty()) return {all_sliced(from)};
    std::vector<Scheduled> found;
    for (const Step& step : slicing) found.push_back(after(from, step));
    for (const Transformation* transformation : transformations()) {
      if (transformation == &dead_transformation || transformation == &as_slice_transformation)
        continue;
      for (const Step& step : transformation->candidates(from.graph))
        found.push_back(after(from, step));
    }
    return found;
  }

  const SpaceRules& rules_;
  Canonical canonical_;
  std::set<std::string> programs_, plans_;
  std::vector<Scheduled> reached_;
  std::int64_t values_ = 0;  ///< in those
  Space space_;
};

}  // namespace

Space find_space(const ir::Graph& graph, const SpaceRules& rules) {
  return Search(rules).run(graph);
}

std::string to_string(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) text += (text.empty() ? "" : "; ") + to_string(step);
  return text;
}

}  // namespace coconet::sched
