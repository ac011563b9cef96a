// The schedules that ship with the library: the text of every src/sched/shipped/*.json, embedded at
// build time.
#pragma once

#include <span>
#include <string_view>

namespace coconet::sched {

struct ShippedSchedule {
  std::string_view file;  ///< "adam-fused.json"
  std::string_view text;
};

/// All of them, sorted by file name.
[[nodiscard]] std::span<const ShippedSchedule> shipped_schedules();

}  // namespace coconet::sched
