// A descent: the step that is predicted to gain the most, again and again.
#include "sched/tune/likely.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "coconet/error.h"
#include "coconet/programs.h"
#include "ir/access.h"
#include "sched/cost/estimate.h"
#include "sched/programs/averaged.h"
#include "sched/tune/scheduled.h"

namespace coconet::sched {

namespace {

class Descent {
 public:
  Descent(const ir::Graph& graph, const ir::Sizes& sizes, const Cluster& cluster)
      : sizes_(sizes), cluster_(cluster), at_{{}, graph}, us_(predict(graph)) {}

  /// Takes steps of `transformation`, of which `accepts` says which may be taken: while there are
  /// any, or only while the program becomes quicker.
  enum class While { possible, quicker };
  void take(const Transformation& transformation, While condition,
            const std::function<bool(const Step&)>& accepts = {}) {
    for (;;) {
      std::vector<Step> steps = transformation.candidates(at_.graph);
      if (accepts) std::erase_if(steps, [&](const Step& step) { return !accepts(step); });
      std::optional<Scheduled> best;
      double best_us = never;
      for (const Step& step : steps) {
        seen_ += at_.graph.size();
        if (seen_ > most_seen) break;
        Scheduled next = after(at_, step);
        const double us = predict(next.graph);
        if (best && us >= best_us) continue;
        best = std::move(next);
        best_us = us;
      }
      if (!best || (condition == While::quicker && best_us >= us_)) return;
      at_ = std::move(*best);
      us_ = best_us;
    }
  }
  void take(const Step& step) { go_to(after(at_, step)); }
  void slice_all() { go_to(all_sliced(at_)); }

  [[nodiscard]] const ir::Graph& graph() const { return at_.graph; }
  [[nodiscard]] double us() const { return us_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return at_.steps; }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// Of programs that are tried, values in all: about a second. Beyond, what is found is taken.
  static constexpr std::int64_t most_seen = 1 << 18;

  void go_to(Scheduled next) {
    at_ = std::move(next);
    us_ = predict(at_.graph);
  }

  /// Microseconds; `never` for what has no plan, or none that runs there.
  [[nodiscard]] double predict(const ir::Graph& graph) const {
    try {
      const Estimate found = estimate(lower(graph), sizes_, cluster_);
      return found.problem.empty() ? found.us : never;
    } catch (const Error&) {
      return never;
    }
  }

  const ir::Sizes& sizes_;
  const Cluster& cluster_;
  Scheduled at_;
  double us_;
  std::int64_t seen_ = 0;
};

/// Of the states and outputs of `one`; inputs have what they are given.
bool have_same_layouts(const ir::Graph& one, const ir::Graph& other) {
  for (const ir::Node& node : one.nodes()) {
    if (node.op != ir::Op::state) continue;
    const ir::ValueId same = other.find(node.name);
    if (same >= 0 && other.at(same).layout != node.layout) return false;
  }
  return std::ranges::all_of(one.outputs(), [&](const ir::Output& output) {
    const ir::ValueId same = other.find_output(output.name);
    return same >= 0 && other.at(same).layout == one.at(output.value).layout;
  });
}

/// Whether all states that `scheduled` keeps in other slices than `written` may be.
bool slices_as_it_may(const ir::Graph& written, const ir::Graph& scheduled) {
  return std::ranges::all_of(scheduled.nodes(), [&](const ir::Node& node) {
    if (node.op != ir::Op::state || node.attributes.may_slice) return true;
    const ir::ValueId own = written.find(node.name);
    return own < 0 || written.at(own).layout == node.layout;
  });
}

bool makes_computation(const Step& step) {
  return step.text("kind") == to_string(ir::Fusion::Kind::computation);
}

}  // namespace

std::vector<Steps> shipped_schedules_of(const Program& program) {
  std::string name = program.name();
  if (name.ends_with(programs::scattered_suffix))
    name.resize(name.size() - programs::scattered_suffix.size());
  const programs::Shipped* const shipped = programs::find(name);
  if (shipped == nullptr) return {};
  std::vector<Steps> all;
  for (const std::string_view schedule :
       programs::averages_by_nodes(program.mesh()) ? shipped->across_nodes : shipped->schedules) {
    try {
      const Schedule loaded = Schedule::load(name + "-" + std::string(schedule) + ".json");
      const Program scheduled = loaded.apply(program).back();
      if (!slices_as_it_may(*ir::graph_of(program), *ir::graph_of(scheduled))) continue;
      all.push_back(steps_of(loaded));
    } catch (const Error&) {  // another program of that name
    }
  }
  return all;
}

std::vector<Step> likely_steps(const ir::Graph& graph, const ir::Sizes& sizes,
                               const Cluster& cluster) {
  const Descent as_it_is(graph, sizes, cluster);
  Descent whole = as_it_is, sliced = as_it_is;
  whole.take(fuse_transformation, Descent::While::quicker);
  sliced.take(split_transformation, Descent::While::possible,
              [](const Step& step) { return step.text("into") != "reduce+broadcast"; });
  sliced.take(reorder_transformation, Descent::While::possible);
  sliced.slice_all();
  sliced.take(fuse_transformation, Descent::While::quicker);
  sliced.take(overlap_transformation, Descent::While::quicker);
  const Descent* const all[] = {&as_it_is, &whole, &sliced};
  return (*std::ranges::min_element(all, {}, [](const Descent* one) { return one->us(); }))
      ->steps();
}

std::vector<Step> steps_without_exchanges(const ir::Graph& graph, const std::vector<Step>& steps,
                                          const ir::Sizes& sizes, const Cluster& cluster) {
  Descent whole(graph, sizes, cluster), sliced = whole;
  for (const Step& step : steps) {
    if (step.transformation == fuse_transformation.name ||
        step.transformation == overlap_transformation.name)
      continue;
    sliced.take(step);
  }
  const bool is_same = have_same_layouts(sliced.graph(), graph);
  sliced.take(fuse_transformation, Descent::While::quicker, makes_computation);
  whole.take(fuse_transformation, Descent::While::quicker, makes_computation);
  return is_same && whole.us() < sliced.us() ? whole.steps() : sliced.steps();
}

}  // namespace coconet::sched
