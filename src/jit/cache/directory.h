// The directory of a cache: who may have written in it, and what lies there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "jit/cache/file.h"
#include "jit/cache/key.h"

namespace coconet::jit {

/// A cached kernel is code that this process will run: somebody else may have put it there. The
/// message says why, and what would help.
class Distrust : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Who must own a directory.
enum class Ownership : std::uint8_t {
  mine,   ///< the effective user's, with mode 0700: the one that is written
  vetted  ///< the effective user's or root's, and nobody else can write in it: those that are only
          ///< read, or that hold copies for people
};

/// A file that may be an entry, by its name.
struct EntryFile {
  std::string folder;  ///< two digits
  std::string name;    ///< 62 digits, ".v" and a version
  struct stat status {};
  /// The 64 digits of the key's digest.
  [[nodiscard]] std::string digits() const { return folder + name.substr(0, 62); }
  [[nodiscard]] auto bytes() const { return static_cast<std::uint64_t>(status.st_size); }
};

/// The names in a cache directory.
[[nodiscard]] std::string folder_of(const Digest& digest);
[[nodiscard]] std::string name_of(const Digest& digest);
/// Whether `name` is that of a folder of entries: two digits.
[[nodiscard]] bool is_folder_name(std::string_view name);

class CacheDirectory {
 public:
  /// Opens `path`; null when there is none. Follows a link of the effective user's or root's.
  /// Throws Distrust, and std::system_error.
  [[nodiscard]] static std::shared_ptr<const CacheDirectory> open(const std::filesystem::path& path,
                                                                  Ownership ownership);
  /// Opens `path`, after creating it and missing parents. Throws as `open` does.
  [[nodiscard]] static std::shared_ptr<const CacheDirectory> make(const std::filesystem::path& path,
                                                                  Ownership ownership);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] Ownership ownership() const { return ownership_; }
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  /// Whether somebody removed it while it was open here.
  [[nodiscard]] bool is_gone() const;

  /// The folder `digits`; not open when there is none, or, with EPERM, when it is not to be
  /// trusted.
  [[nodiscard]] OpenFile folder(const std::string& digits) const;
  /// The folder `digits`, created when there is none. Throws std::system_error.
  [[nodiscard]] OpenFile make_folder(const std::string& digits) const;

  /// Calls `visit` with every entry, of any version, and `visit_temporary` with files that are
  /// being written, or were when their writer was killed. Files that vanish meanwhile are left out.
  using Visit = std::function<void(int folder, const EntryFile& file)>;
  void for_each(const Visit& visit, const Visit& visit_temporary = {}) const;

  /// Why a file with `status` is not to be loaded, or null: a sentence about "it".
  [[nodiscard]] const char* distrusts(const struct stat& status) const;

 private:
  CacheDirectory(std::filesystem::path path, Ownership ownership, OpenFile descriptor);

  std::filesystem::path path_;
  Ownership ownership_;
  OpenFile descriptor_;
};

}  // namespace coconet::jit
