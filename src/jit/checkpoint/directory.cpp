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
#include "jit/checkpoint/file_reader.h"
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
    throw_file_error("read the directory", directory, error.code().value());
  }
}

/// Of `path` itself, also where it is a symbolic link; nothing where it is missing.
std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT && errno != ENOTDIR) throw_file_error("look at", path);
  return std::nullopt;
}

/// The manifest of the checkpoint `directory`; nothing where that is none. Throws Damage where the
/// manifest is damaged or missing, and CheckpointError where that cannot be said.
std::optional<Manifest> manifest_in(const fs::path& directory) {
  const fs::path file = directory / manifest_name;
  // Whatever a checkpoint has, rank 0 saves some of it.
  if (!status_of(file) && !status_of(directory / file_of_rank(0))) return std::nullopt;
  return parse_manifest(read_saved_text(file), file);
}

/// Throws Damage unless the checkpoint has its files in full length.
void require_files(const fs::path& directory, const Manifest& manifest) {
  for (const SavedFile& file : manifest.files) (void)FileReader(directory, file);
}

/// Whether `directory` is somebody else's, who does not let this user look into it.
bool is_closed(const fs::path& directory, const struct stat& status) {
  return status.st_uid != geteuid() &&
         faccessat(AT_FDCWD, directory.c_str(), X_OK, AT_EACCESS) == -1 && errno == EACCES;
}

/// `path`, or where it leads as a symbolic link, also to what is not there yet.
fs::path without_links(fs::path path) {
  constexpr int most_links = 40;  // as the kernel's
  for (int links = 0; links <= most_links; ++links) {
    const auto status = status_of(path);
    if (!status || !S_ISLNK(status->st_mode)) return path;
    std::error_code error;
    path = path.parent_path() / fs::read_symlink(path, error);
    if (!path.has_filename()) path = path.parent_path();  // "a/" is "a"
    if (error) throw_file_error("follow the symbolic link", path, error.value());
  }
  throw_file_error("follow the symbolic link", path, ELOOP);
}

constexpr std::string_view aside_mark = ".damaged-";  // and a number

/// A name beside `path` for what is damaged there.
fs::path name_for_damaged(const fs::path& path) {
  for (int number = 1;; ++number) {
    fs::path name = path;
    name += fmt::format("{}{}", aside_mark, number);
    if (!status_of(name)) return name;
  }
}

/// Whether `name` is one of those.
bool is_put_aside(std::string_view name) {
  const std::size_t at = name.rfind(aside_mark);
  if (at == std::string_view::npos) return false;
  const std::string_view number = name.substr(at + aside_mark.size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
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
    throw_file_error("read the directory", directory, error.code().value());
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

FoundCheckpoints find_checkpoints(const fs::path& directory) {
  FoundCheckpoints found;
  for_each_name_in(directory, [&](const std::string& name) {
    const fs::path path = directory / name;
    const auto status = status_of(path);
    if (!status || !S_ISDIR(status->st_mode) || name.starts_with(checkpoint_temporary_prefix))
      return;
    if (is_closed(path, *status)) {
      found.left_out.push_back(
          {path,
           fmt::format("'{}' belongs to another user, and is closed to this one", path.string())});
      return;
    }
    if (is_put_aside(name)) {  // its manifest may be whole
      if (is_checkpoint(path))
        found.left_out.push_back(
            {path, fmt::format("'{}' is damaged, and was put aside", path.string())});
      return;
    }
    try {
      if (const auto manifest = manifest_in(path))
        found.whole.push_back({path, manifest->sequence, manifest->program});
    } catch (const Damage& damage) {
      found.left_out.push_back({path, damage.what()});
    }
  });
  std::ranges::sort(found.whole, [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return a.sequence != b.sequence ? a.sequence > b.sequence : a.path > b.path;
  });
  std::ranges::sort(found.left_out, {}, &LeftOutCheckpoint::path);
  return found;
}

bool is_checkpoint(const fs::path& directory) {
  return status_of(directory / manifest_name) || status_of(directory / file_of_rank(0));
}

PendingCheckpoint::PendingCheckpoint(const fs::path& target) : target_(without_links(target)) {
  const fs::path directory = target_.parent_path();
  if (const auto status = status_of(target_)) {
    try {
      const auto manifest = S_ISDIR(status->st_mode) ? manifest_in(target_) : std::nullopt;
      if (!manifest) {
        throw CheckpointError(fmt::format(
            "'{}' is there, and is no checkpoint; save to a place of its own.", target_.string()));
      }
      require_files(target_, *manifest);
    } catch (const Damage& damage) {
      damage_ = damage.what();
    }
  }
  make_directories(directory);
  remove_killed_saves(directory);
  const FoundCheckpoints found = find_checkpoints(directory);
  if (!found.whole.empty()) {
    const FoundCheckpoint& newest = found.whole.front();
    if (newest.sequence >= most_sequence) {
      throw CheckpointError(fmt::format(
          "The checkpoint '{}' has the sequence {}, the largest that there can be, so that none "
          "can be newer; move it to another directory.",
          newest.path.string(), newest.sequence));
    }
    sequence_ = newest.sequence + 1;
  }
  const auto make = [&] {
    fs::path candidate = temporary_in(directory);
    while (mkdir(candidate.c_str(), directory_mode) == -1) {
      if (errno != EEXIST) throw_file_error("make a directory beside", target_);
      candidate = temporary_in(directory);
    }
    return candidate;
  };
  try {
    path_ = make_locked(make, lock_);
  } catch (const std::system_error& error) {
    throw_file_error("make a directory beside", target_, error.code().value());
  }
  if (!path_.empty()) return;
  throw CheckpointError(fmt::format(
      "Cannot make a directory beside '{}': others remove them at once.", target_.string()));
}

PendingCheckpoint::~PendingCheckpoint() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void PendingCheckpoint::put_damaged_aside() {
  const fs::path aside = name_for_damaged(target_);
  if (rename(target_.c_str(), aside.c_str()) == -1) {
    if (errno == ENOENT) return;  // somebody has
    throw_file_error("rename", target_);
  }
  log_warn(fmt::format("what was at '{}' is damaged, and is now '{}': {}", target_.string(),
                       aside.string(), damage_));
}

void PendingCheckpoint::publish() {
  sync_directory(path_);
  if (!damage_.empty()) put_damaged_aside();
  fs::path old;
  if (!status_of(target_)) {
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
  FoundCheckpoints found;
  try {
    found = find_checkpoints(directory);
  } catch (const CheckpointError& error) {
    log_warn(fmt::format("no old checkpoint is removed: {}", error.what()));
    return;
  }
  for (const FoundCheckpoint& one : found.whole) {
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
