// Patterns in schedules: "grad.*" stands for all values whose names are like that, "[!w]*" for all
// whose names begin with another letter than w.
#pragma once

#include <string_view>
#include <vector>

#include "sched/transform.h"

namespace coconet::sched {

/// Whether `name` is like `pattern`, in which * stands for any characters, also none, and [!ab] for
/// one that is neither a nor b.
[[nodiscard]] bool is_like(std::string_view name, std::string_view pattern);

/// The steps that `step`, which is complete, stands for in `graph`: one for each value that a
/// pattern in a single argument stands for; patterns in lists become all values that they stand
/// for. Throws ScheduleError where a pattern stands for none, but for one that begins with [! and
/// says what is left out.
[[nodiscard]] std::vector<Step> expand(const ir::Graph& graph, const Step& step);

}  // namespace coconet::sched
