// Looks at the directories that temporary files may go to.
#include "jit/config/temporary_place.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

#include "coconet/error.h"
#include "jit/config/log.h"

namespace coconet::jit {
namespace {

/// Whether `owner` stands for users that this process's user namespace does not know, who are
/// outside of its container.
bool is_of_outside(uid_t owner) {
  std::ifstream overflow("/proc/sys/kernel/overflowuid"), map("/proc/self/uid_map");
  uid_t unknown = 0;
  if (!(overflow >> unknown) || unknown != owner) return false;
  for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;) {
    if (owner >= first && owner - first < count) return false;
  }
  return true;
}

/// Why names in `directory` are not safe: a sentence about it; empty where they are, or where it
/// cannot be looked at, of which whoever makes a file there says more.
std::string problem_of(const std::string& directory) {
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) return {};
  const uid_t owner = status.st_uid;
  if (owner != geteuid() && owner != 0 && !is_of_outside(owner))
    return fmt::format("'{}' belongs to another user (number {}), who may put code there",
                       directory, owner);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0) {
    return fmt::format(
        "other users may write in '{0}' (its mode is 0{1:o}), and so put code there; chmod +t "
        "'{0}'",
        directory, status.st_mode & 07777);
  }
  return {};
}

}  // namespace

std::filesystem::path temporary_place() {
  const std::filesystem::path last = "/tmp";
  std::error_code error;
  std::filesystem::path place = std::filesystem::temp_directory_path(error);
  if (error) place = last;
  const std::string problem = problem_of(place.string());
  if (problem.empty()) return place;
  if (place == last || !problem_of(last.string()).empty()) {
    throw ConfigError(fmt::format(
        "There is no place for temporary files: {}. TMPDIR names another directory.", problem));
  }
  static std::atomic<bool> told = false;
  if (!told.exchange(true))
    log_warn(fmt::format("temporary files go to /tmp, not to where TMPDIR says: {}", problem));
  return last;
}

}  // namespace coconet::jit
