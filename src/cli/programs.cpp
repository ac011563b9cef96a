// `coconet programs`: lists the programs that ship, and their schedules.
#include "coconet/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "cli/commands.h"

namespace coconet::cli {

int programs(const ProgramsOptions& options) {
  const auto& shipped = coconet::programs::shipped();
  std::size_t width = 0;
  for (const auto& one : shipped) width = std::max(width, one.name.size());
  for (const auto& one : shipped) {
    const std::string name(one.name);
    if (options.schedules) {
      for (const auto schedule : one.schedules) {
        std::printf("%s %s\n", name.c_str(), std::string(schedule).c_str());
      }
    } else if (options.hyperparameters) {
      for (const auto& [field, value, range] : one.hyperparameters)
        fmt::print("{} {}={}, {}\n", name, field, value, range);
    } else {
      std::printf("%-*s  %s\n", static_cast<int>(width), name.c_str(),
                  std::string(one.summary).c_str());
    }
  }
  return exit_ok;
}

}  // namespace coconet::cli
