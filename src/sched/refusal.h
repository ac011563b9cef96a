// A refused step, and what may be done instead of it. Which remedies work depends on the program:
// rules propose them, and only those are said that were tried and are legal.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "coconet/error.h"
#include "ir/graph.h"
#include "sched/transform.h"

namespace coconet::sched {

/// Something to do instead of the refused step.
struct Remedy {
  std::vector<Step> first = {};  ///< steps before it, in order
  bool again = true;  ///< the step is legal after `first`; else what `first` makes takes its place
  // Of a fuse:
  std::set<ir::ValueId> with = {};     ///< ops to name too
  std::set<ir::ValueId> without = {};  ///< ops not to name
  bool any_kind = false;               ///< the ops may make a kernel of another kind
  std::string merged = {};             ///< a kernel that becomes part of this one
};

/// Thrown by rules in place of a ScheduleError. Where nothing can be tried its text is the rule and
/// what holds `otherwise`.
class Refusal : public ScheduleError {
 public:
  Refusal(const std::string& rule, std::vector<Remedy> remedies, const std::string& otherwise = "")
      : ScheduleError(otherwise.empty() ? rule : rule + "; " + otherwise),
        rule_(rule),
        remedies_(std::move(remedies)) {}

  [[nodiscard]] const std::string& rule() const { return rule_; }
  [[nodiscard]] const std::vector<Remedy>& remedies() const { return remedies_; }

 private:
  std::string rule_;
  std::vector<Remedy> remedies_;
};

/// What the refusal of `step`, which is complete, says: the rule, and the first of its remedies
/// that are legal for `graph`.
[[nodiscard]] std::string advised(const ir::Graph& graph, const Step& step, const Refusal& refusal);

}  // namespace coconet::sched
