// The inside of coconet::Schedule: its name and steps, and their JSON.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/program.h"
#include "coconet/schedule.h"
#include "ir/json/element.h"
#include "sched/transform.h"

namespace coconet {

struct Schedule::Steps {
  std::string name;
  std::vector<sched::Step> steps;
  /// `compile` chooses the steps; the states that it may keep sliced. There are no steps until
  /// then.
  std::optional<std::set<std::string>> automatic = {};
};

}  // namespace coconet

namespace coconet::sched {

/// `program` after step `index`. Throws ScheduleError, naming the step, when it is not legal.
[[nodiscard]] Program apply_step(const Program& program, const Schedule::Steps& steps,
                                 std::size_t index);

[[nodiscard]] std::string to_json(const Schedule::Steps& steps);
/// Throws ScheduleError with the JSON pointer of what is wrong.
[[nodiscard]] Schedule::Steps parse_schedule(std::string_view text);
/// The same of a part of a document; throws ProgramError.
[[nodiscard]] Schedule::Steps parse_schedule(const ir::JsonElement& element);
/// JSON Schema of the schedule format, made from the table of transformations:
/// docs/schedule.schema.json.
[[nodiscard]] std::string json_schema();

}  // namespace coconet::sched
