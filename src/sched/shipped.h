// The schedules that ship with the library: the text of every src/sched/shipped/*.json, embedded at
// build time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coconet::sched {

struct ShippedSchedule {
  std::string_view file;  ///< "adam-fused.json"
  std::string_view text;
};

/// All of them, sorted by file name.
[[nodiscard]] std::span<const ShippedSchedule> shipped_schedules();

/// The text of the shipped schedule `file`; nothing when none of that name ships. Optimizers
/// without a file of their own, "radam-fused.json", have that of "optimizer-fused.json", in which
/// "optimizer" stands for the optimizer's name.
[[nodiscard]] std::optional<std::string> find_shipped_schedule(std::string_view file);

/// The names that it knows.
[[nodiscard]] std::vector<std::string> shipped_schedule_files();

}  // namespace coconet::sched
