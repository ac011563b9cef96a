// What a process holds, for tests that it does not grow.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "coconet/world.h"

namespace coconet::test {

struct Holdings {
  std::size_t pages = 0, resident = 0;  ///< of memory
  std::size_t descriptors = 0, mappings = 0, threads = 0;
};

/// To look takes a descriptor, so that one thread does at a time.
[[nodiscard]] inline Holdings holdings() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto count = [](const char* directory) {
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(directory))
      ++entries;
    return entries;
  };
  Holdings now;
  std::ifstream("/proc/self/statm") >> now.pages >> now.resident;
  now.descriptors = count("/proc/self/fd");
  now.threads = count("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  return now;
}

/// What the process holds while no rank of `world` does anything; every rank calls it.
[[nodiscard]] inline Holdings holdings_at_rest(const World& world) {
  world.barrier();
  const Holdings now = holdings();
  world.barrier();
  return now;
}

/// What has grown from `before` to `after`, for people; empty where nothing has. Allocators keep
/// some pages more in the one than in the other, and a mapping or two.
[[nodiscard]] inline std::string growth(const Holdings& before, const Holdings& after) {
  std::string grown;
  const auto compare = [&](const char* what, std::size_t from, std::size_t to, std::size_t slack) {
    if (to > from + slack)
      grown += std::to_string(from) + " " + what + " became " + std::to_string(to) + "; ";
  };
  compare("descriptors", before.descriptors, after.descriptors, 0);
  compare("threads", before.threads, after.threads, 0);
  compare("mappings", before.mappings, after.mappings, 2);
  compare("resident pages", before.resident, after.resident, 128);
  return grown;
}

}  // namespace coconet::test
