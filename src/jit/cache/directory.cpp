// Opening, distrusting and listing cache directories.
#include "jit/cache/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "jit/cache/entry.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_entry_name(std::string_view name) {
  constexpr std::size_t digits = 2 * sizeof(Digest) - 2;
  return name.size() >= digits + 3 && is_hexadecimal(name.substr(0, digits)) &&
         name.substr(digits, 2) == ".v" &&
         name.find_first_not_of("0123456789", digits + 2) == std::string_view::npos;
}

std::string user(uid_t id) {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(id, &entry, room.data(), room.size(), &found) == 0 && found != nullptr)
    return fmt::format("user {}", found->pw_name);
  return fmt::format("user {}", id);
}

constexpr mode_t others_write = S_IWGRP | S_IWOTH;

// Kernels are code, and run with the rights of the effective user.
void require_trusted(const fs::path& path, const struct stat& status, Ownership ownership) {
  const std::string it = "'" + path.string() + "'";
  const std::string me = user(geteuid());
  const std::string mode = fmt::format("0{:o}", status.st_mode & 07777);
  // Everybody's place for files of their own, as /tmp is: its mode is right, and the choice is not.
  const std::string remedy =
      (status.st_mode & S_ISVTX) != 0 && (status.st_mode & S_IWOTH) != 0
          ? "name one of your own below it"
          : fmt::format("chmod {} {}", ownership == Ownership::mine ? "700" : "go-w", it);
  const bool of_root = ownership == Ownership::vetted && status.st_uid == 0;
  if (status.st_uid != geteuid() && !of_root) {
    throw Distrust(fmt::format(
        "{} belongs to {}, and kernels found there would run as {}; it must "
        "belong to {}{}",
        it, user(status.st_uid), me, me, ownership == Ownership::vetted ? " or to root" : ""));
  }
  if (ownership == Ownership::mine && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Distrust(
        fmt::format("{} is open to other users (its mode is {}), and what runs as "
                    "code must be in a directory of one's own; {}",
                    it, mode, remedy));
  }
  if ((status.st_mode & others_write) != 0) {
    throw Distrust(
        fmt::format("other users may write in {} (its mode is {}), and so put code "
                    "there; {}",
                    it, mode, remedy));
  }
}

// Open to the owner only. An ancestor that exists is never asked: it may be read-only or hidden.
void make_directories(const fs::path& directory) {
  if (mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
  const fs::path parent = directory.parent_path();
  if (errno != ENOENT || parent.empty() || parent == directory)
    throw_errno("cannot create the directory", directory.string());
  make_directories(parent);
  if (mkdir(directory.c_str(), 0700) == -1 && errno != EEXIST)
    throw_errno("cannot create the directory", directory.string());
}

}  // namespace

std::string folder_of(const Digest& digest) {
  return hex(bytes_of(digest).substr(0, 1));
}

std::string name_of(const Digest& digest) {
  return fmt::format("{}.v{}", hex(bytes_of(digest).substr(1)), entry_format);
}

bool is_folder_name(std::string_view name) {
  return name.size() == 2 && is_hexadecimal(name);
}

CacheDirectory::CacheDirectory(fs::path path, Ownership ownership, OpenFile descriptor)
    : path_(std::move(path)), ownership_(ownership), descriptor_(std::move(descriptor)) {}

std::shared_ptr<const CacheDirectory> CacheDirectory::open(const fs::path& path,
                                                           Ownership ownership) {
  // A link of somebody else's leads to where it wants: into a directory of this user's, too.
  struct stat status {};
  const fs::path name = path.has_filename() ? path : path.parent_path();  // "a/" is "a"
  const bool is_link = lstat(name.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  if (is_link && status.st_uid != geteuid() && status.st_uid != 0) {
    throw Distrust(
        fmt::format("'{}' is a symbolic link of {}, who may have it lead anywhere; name "
                    "the directory itself",
                    name.string(), user(status.st_uid)));
  }
  OpenFile descriptor =
      open_at(AT_FDCWD, name.string(), O_RDONLY | O_DIRECTORY | (is_link ? 0 : O_NOFOLLOW));
  if (!descriptor.is_open()) {
    if (errno == ENOENT) return nullptr;
    throw_errno("cannot open the directory", path.string());
  }
  if (fstat(descriptor.number(), &status) == -1)
    throw_errno("cannot look at the directory", path.string());
  require_trusted(path, status, ownership);
  return std::shared_ptr<const CacheDirectory>(
      new CacheDirectory(path, ownership, std::move(descriptor)));  // NOLINT: private constructor
}

std::shared_ptr<const CacheDirectory> CacheDirectory::make(const fs::path& path,
                                                           Ownership ownership) {
  if (auto there = open(path, ownership)) return there;
  make_directories(path);
  auto made = open(path, ownership);
  if (!made) throw_errno("cannot open the directory", path.string());
  return made;
}

bool CacheDirectory::is_gone() const {
  struct stat status {};
  return fstat(descriptor(), &status) == -1 || status.st_nlink == 0;
}

OpenFile CacheDirectory::folder(const std::string& digits) const {
  OpenFile opened = open_at(descriptor(), digits, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat status {};
  if (!opened.is_open() || (fstat(opened.number(), &status) == 0 && distrusts(status) == nullptr)) {
    return opened;
  }
  opened = OpenFile();
  errno = EPERM;
  return opened;
}

OpenFile CacheDirectory::make_folder(const std::string& digits) const {
  if (mkdirat(descriptor(), digits.c_str(), 0700) == -1 && errno != EEXIST)
    throw_errno("cannot create the directory", (path_ / digits).string());
  OpenFile opened = folder(digits);
  if (!opened.is_open()) throw_errno("cannot open the directory", (path_ / digits).string());
  return opened;
}

void CacheDirectory::for_each(const Visit& visit, const Visit& visit_temporary) const {
  for_each_name(descriptor(), [&](const std::string& digits) {
    if (!is_folder_name(digits)) return;
    const OpenFile opened = folder(digits);
    if (!opened.is_open()) return;
    for_each_name(opened.number(), [&](const std::string& name) {
      const bool is_entry = is_entry_name(name);
      if (!is_entry && !(visit_temporary && name.starts_with(temporary_prefix))) return;
      EntryFile file{digits, name, {}};
      if (fstatat(opened.number(), name.c_str(), &file.status, AT_SYMLINK_NOFOLLOW) == -1) return;
      (is_entry ? visit : visit_temporary)(opened.number(), file);
    });
  });
}

const char* CacheDirectory::distrusts(const struct stat& status) const {
  const bool of_root = ownership_ == Ownership::vetted && status.st_uid == 0;
  if (status.st_uid != geteuid() && !of_root) return "it belongs to another user";
  if ((status.st_mode & others_write) != 0) return "other users may write to it";
  return nullptr;
}

}  // namespace coconet::jit
