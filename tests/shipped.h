// Shipped programs under the schedules that ship with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coconet/coconet.h"

namespace coconet::test {

[[nodiscard]] inline Schedule shipped_schedule(const programs::Shipped& program,
                                               std::string_view schedule) {
  return Schedule::load(std::string(program.name) + "-" + std::string(schedule) + ".json");
}

/// The program called `name` for n elements of f32.
[[nodiscard]] inline Executable compile_shipped(const World& world, std::string_view name,
                                                std::string_view schedule, std::int64_t n) {
  const programs::Shipped& program = *programs::find(name);
  return compile(program.build(Mesh::over(world), f32), shipped_schedule(program, schedule), world,
                 {{"n", n}});
}

}  // namespace coconet::test
