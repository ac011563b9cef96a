// Introductions of ranks, and their differences.
#include "jit/comm/worlds/introduction.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <vector>

#include "coconet/error.h"
#include "coconet/version.h"
#include "jit/comm/barrier/membership.h"
#include "jit/config/configure.h"

namespace coconet::jit {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::string introduction(const Config& config) {
  return fmt::format("coconet-jit {}\n{}\n", version(), fmt::join(common_settings(config), "\n"));
}

std::string name_of_node(const Config& config) {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return fmt::format("{} {} {}", config.host_id.empty() ? host.data() : config.host_id, host.data(),
                     boot);
}

void require_alike(std::span<const std::string> introductions) {
  const std::vector<std::string> first = lines_of(introductions[0]);
  for (std::size_t line = 0; line < first.size(); ++line) {
    std::vector<int> differ;
    std::string other;
    for (std::size_t rank = 1; rank < introductions.size(); ++rank) {
      const std::vector<std::string> lines = lines_of(introductions[rank]);
      const std::string theirs = line < lines.size() ? lines[line] : "nothing";
      if (theirs == first[line]) continue;
      if (differ.empty()) other = theirs;
      differ.push_back(static_cast<int>(rank));
    }
    if (differ.empty()) continue;
    throw CommError(
        fmt::format("all ranks of a world must have the same {}, but {} {}, and rank 0 has {}",
                    line == 0 ? "version of the library" : "settings", name_ranks(differ),
                    (differ.size() == 1 ? "has " : "have ") + other, first[line]));
  }
}

}  // namespace coconet::jit
