// Which of the shipped texts a file name stands for.
#include "sched/shipped.h"

#include <algorithm>

#include "coconet/programs.h"

namespace coconet::sched {

namespace {

/// In the files that serve any optimizer, what stands for its name.
constexpr std::string_view any_optimizer = "optimizer";
/// How the names of programs in mixed precision end.
constexpr std::string_view mixed = "_mixed";

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

/// `text` with `name` in the place of `stem`.
std::string written_for(std::string_view name, std::string_view stem, std::string_view text) {
  std::string written(text);
  for (std::size_t at = 0; (at = written.find(stem, at)) != written.npos; at += name.size())
    written.replace(at, stem.size(), name);
  return written;
}

/// What serves `program` in mixed precision, too: "lamb" for "lamb_mixed".
std::string_view unmixed(std::string_view program) {
  return program.substr(0, program.size() - (program.ends_with(mixed) ? mixed.size() : 0));
}

}  // namespace

std::optional<std::string> find_shipped_schedule(std::string_view file) {
  if (const ShippedSchedule* own = find_file(file)) return std::string(own->text);
  for (const programs::Shipped& program : programs::shipped()) {
    for (const std::string_view schedule : schedules_of(program)) {
      if (file != file_of(program.name, schedule)) continue;
      for (const std::string_view stem : {unmixed(program.name), any_optimizer}) {
        if (const ShippedSchedule* of_stem = find_file(file_of(stem, schedule)))
          return written_for(program.name, stem, of_stem->text);
      }
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
