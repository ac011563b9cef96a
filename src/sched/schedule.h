// The inside of coconet::Schedule: its name and steps, and their JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coconet/program.h"
#include "coconet/schedule.h"
#include "ir/json/element.h"
#include "sched/transform.h"

namespace coconet::sched {

struct Steps {
  std::string name;
  std::vector<Step> steps;
  bool is_automatic = false;  ///< `compile` chooses the steps; there are none until then
};

/// `program` after step `index`. Throws ScheduleError, naming the step, when it is not legal.
[[nodiscard]] Program apply_step(const Program& program, const Steps& steps, std::size_t index);

[[nodiscard]] std::string to_json(const Steps& steps);
/// Throws ScheduleError with the JSON pointer of what is wrong.
[[nodiscard]] Steps parse_schedule(std::string_view text);
/// Reads a schedule that is part of a larger document; throws ProgramError.
[[nodiscard]] Steps parse_schedule(const ir::JsonElement& element);
/// JSON Schema of the schedule format, made from the table of transformations:
/// docs/schedule.schema.json.
[[nodiscard]] std::string json_schema();

}  // namespace coconet::sched
