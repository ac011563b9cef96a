// Which of the shipped texts a file name stands for.
#include "sched/shipped.h"

#include <algorithm>

#include "coconet/programs.h"

namespace coconet::sched {

namespace {

/// In the files that serve any optimizer, what stands for its name.
constexpr std::string_view any_optimizer = "optimizer";

const ShippedSchedule* find_file(std::string_view file) {
  const auto rows = shipped_schedules();
  const auto row = std::ranges::find(rows, file, &ShippedSchedule::file);
  return row == rows.end() ? nullptr : &*row;
}

std::string file_of(std::string_view program, std::string_view schedule) {
  return std::string(program) + "-" + std::string(schedule) + ".json";
}

/// The names of the schedules of `program`, each once.
std::vector<std::string_view> schedules_of(const programs::Shipped& program) {
  std::vector<std::string_view> names = program.schedules;
  for (const std::string_view name : program.across_nodes) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

/// `text` with `name` in the place of `any_optimizer`.
std::string written_for(std::string_view name, std::string_view text) {
  std::string written(text);
  for (std::size_t at = 0; (at = written.find(any_optimizer, at)) != written.npos;
       at += name.size())
    written.replace(at, any_optimizer.size(), name);
  return written;
}

}  // namespace

std::optional<std::string> find_shipped_schedule(std::string_view file) {
  if (const ShippedSchedule* own = find_file(file)) return std::string(own->text);
  for (const programs::Shipped& program : programs::shipped()) {
    for (const std::string_view schedule : schedules_of(program)) {
      if (file != file_of(program.name, schedule)) continue;
      if (const ShippedSchedule* any = find_file(file_of(any_optimizer, schedule)))
        return written_for(program.name, any->text);
    }
  }
  return std::nullopt;
}

std::vector<std::string> shipped_schedule_files() {
  std::vector<std::string> files;
  for (const ShippedSchedule& own : shipped_schedules()) files.emplace_back(own.file);
  for (const programs::Shipped& program : programs::shipped()) {
    for (const std::string_view schedule : schedules_of(program)) {
      std::string file = file_of(program.name, schedule);
      if (find_file(file) == nullptr) files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace coconet::sched
