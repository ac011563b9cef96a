// The directory that checkpoints are in; see directory.h.
#include "jit/checkpoint/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>

#include "jit/checkpoint/damage.h"
#include "jit/checkpoint/file_writer.h"
#include "jit/checkpoint/manifest.h"
#include "jit/config/leftovers.h"
#include "jit/config/log.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

constexpr mode_t directory_mode = 0777;  // as the user's mask allows

void make_directories(const fs::path& directory) {
  if (mkdir(directory.c_str(), directory_mode) == 0) {
    sync_directory(directory.parent_path());
    return;
  }
  if (errno == EEXIST) return;
  if (errno != ENOENT || directory == directory.parent_path())
    throw_file_error("make the directory", directory);
  make_directories(directory.parent_path());
  if (mkdir(directory.c_str(), directory_mode) == -1 && errno != EEXIST)
    throw_file_error("make the directory", directory);
  sync_directory(directory.parent_path());
}

fs::path temporary_in(const fs::path& directory) {
  std::random_device random;
  return directory / fmt::format("{}{:08x}{:08x}", checkpoint_temporary_prefix, random(), random());
}

/// Calls visit(name) for every name in `directory`.
void for_each_name_in(const fs::path& directory,
                      const std::function<void(const std::string&)>& visit) {
  const OpenFile opened = open_at(AT_FDCWD, directory.string(), O_RDONLY | O_DIRECTORY);
  if (!opened.is_open() && errno == ENOENT) return;
  if (!opened.is_open()) throw_file_error("read the directory", directory);
  try {
    for_each_name(opened.number(), visit);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    throw_file_error("read the directory", directory);
  }
}

/// What a checkpoint's manifest begins with; nothing where `directory` is none.
std::optional<ManifestStart> start_of(const fs::path& directory) {
  const OpenFile file =
      open_at(AT_FDCWD, (directory / manifest_name).string(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.is_open()) return std::nullopt;
  try {
    return parse_start(read_bytes(file.number(), manifest_start_bytes));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

/// Removes a directory that is not to be seen half removed: under a name that the next save removes
/// where this one is killed.
void remove_aside(const fs::path& path) {
  const fs::path aside = temporary_in(path.parent_path());
  fs::rename(path, aside);
  fs::remove_all(aside);
}

/// What saves that were killed have left in `directory`. A save that lives has its own one locked.
void remove_killed_saves(const fs::path& directory) {
  const auto tell = [](const fs::path& path, const std::error_code& error) {
    log_info(error ? fmt::format("cannot remove '{}', which a killed save has left: {}",
                                 path.string(), error.message())
                   : fmt::format("removed '{}', which a killed save had left", path.string()));
  };
  try {
    remove_leftovers(directory, checkpoint_temporary_prefix, tell);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    throw_file_error("read the directory", directory);
  }
}

/// Whether `from` is now where `to` was, and `to` where `from` was.
bool exchange(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    throw_file_error("put a checkpoint in the place of", to);
  return false;
}

}  // namespace

fs::path checkpoint_path(const fs::path& path) {
  fs::path whole = path.empty() ? path : fs::absolute(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "a/" is "a"
  if (!whole.has_filename()) {
    throw CheckpointError(fmt::format(
        "'{}' is no place for a checkpoint; name a directory, such as 'checkpoints/step-100'.",
        path.string()));
  }
  return whole;
}

std::vector<FoundCheckpoint> find_checkpoints(const fs::path& directory) {
  std::vector<FoundCheckpoint> found;
  for_each_name_in(directory, [&](const std::string& name) {
    if (name.starts_with(checkpoint_temporary_prefix)) return;
    if (const auto start = start_of(directory / name))
      found.push_back({directory / name, start->sequence, start->program});
  });
  std::ranges::sort(found, [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return a.sequence != b.sequence ? a.sequence > b.sequence : a.path > b.path;
  });
  return found;
}

PendingCheckpoint::PendingCheckpoint(fs::path target) : target_(std::move(target)) {
  const fs::path directory = target_.parent_path();
  struct stat status {};
  if (lstat(target_.c_str(), &status) == 0 && !start_of(target_)) {
    throw CheckpointError(fmt::format(
        "'{}' is there, and is no checkpoint; save to a place of its own.", target_.string()));
  }
  make_directories(directory);
  remove_killed_saves(directory);
  for (const FoundCheckpoint& one : find_checkpoints(directory))
    sequence_ = std::max(sequence_, one.sequence + 1);
  const auto make = [&] {
    fs::path candidate = temporary_in(directory);
    while (mkdir(candidate.c_str(), directory_mode) == -1) {
      if (errno != EEXIST) throw_file_error("make a directory beside", target_);
      candidate = temporary_in(directory);
    }
    return candidate;
  };
  path_ = make_locked(make, lock_);
  if (!path_.empty()) return;
  throw CheckpointError(fmt::format(
      "Cannot make a directory beside '{}': others remove them at once.", target_.string()));
}

PendingCheckpoint::~PendingCheckpoint() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void PendingCheckpoint::publish() {
  sync_directory(path_);
  struct stat status {};
  fs::path old;
  if (lstat(target_.c_str(), &status) == -1) {
    if (rename(path_.c_str(), target_.c_str()) == -1)
      throw_file_error("put a checkpoint in the place of", target_);
  } else if (exchange(path_, target_)) {
    old = path_;
  } else {
    // Where names cannot be exchanged, the old one is found under another name in between.
    old = target_;
    old += fmt::format(".before-{}", sequence_);
    if (rename(target_.c_str(), old.c_str()) == -1) throw_file_error("rename", target_);
    if (rename(path_.c_str(), target_.c_str()) == -1)
      throw_file_error("put a checkpoint in the place of", target_);
  }
  path_.clear();
  sync_directory(target_.parent_path());
  std::error_code error;
  if (!old.empty()) fs::remove_all(old, error);
  if (error) log_warn(fmt::format("cannot remove '{}': {}", old.string(), error.message()));
}

void keep_newest(const fs::path& directory, std::string_view program, std::size_t keep) {
  for (const FoundCheckpoint& one : find_checkpoints(directory)) {
    if (one.program != program) continue;
    if (keep > 0) {
      --keep;
      continue;
    }
    try {
      remove_aside(one.path);
    } catch (const fs::filesystem_error& error) {
      log_warn(fmt::format("cannot remove the old checkpoint '{}': {}", one.path.string(),
                           error.code().message()));
    }
  }
}

}  // namespace coconet::jit
