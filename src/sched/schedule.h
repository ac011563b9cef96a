// The inside of coconet::Schedule: its name and steps, and their JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coconet/schedule.h"
#include "sched/transform.h"

namespace coconet {

struct Schedule::Steps {
  std::string name;
  std::vector<sched::Step> steps;
};

}  // namespace coconet

namespace coconet::sched {

[[nodiscard]] std::string to_json(const Schedule::Steps& steps);
/// Throws ScheduleError with the JSON pointer of what is wrong.
[[nodiscard]] Schedule::Steps parse_schedule(std::string_view text);
/// JSON Schema of the schedule format, made from the table of transformations:
/// docs/schedule.schema.json.
[[nodiscard]] std::string json_schema();

}  // namespace coconet::sched
