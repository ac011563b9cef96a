// Times of files, and files that appear as a whole.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "jit/config/open_file.h"

namespace coconet::jit {

using FileTime = std::chrono::sys_time<std::chrono::nanoseconds>;
[[nodiscard]] FileTime time_of(const timespec& time);
/// When a file was changed, or what `set_time` said last.
[[nodiscard]] inline FileTime time_of(const struct stat& status) {
  return time_of(status.st_mtim);
}
[[nodiscard]] inline FileTime time_now() {
  return std::chrono::system_clock::now();
}
/// Since 1970.
[[nodiscard]] inline std::int64_t seconds_of(FileTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}
/// Sets the time of an open file, or of `name` in a folder. False when refused, or the file gone.
[[nodiscard]] bool set_time(int descriptor, FileTime time);
[[nodiscard]] bool set_time(int folder, const std::string& name, FileTime time);

/// What the names of files that are being written begin with.
inline constexpr std::string_view temporary_prefix = ".tmp-";

/// A file that appears under its name whole or not at all: `commit` renames a temporary file beside
/// it, which is the owner's alone and which the destructor removes. Every member throws
/// std::system_error.
class AtomicFile {
 public:
  /// Whether its content is on the disk before it has its name.
  enum class Durability : bool { none, synced };

  /// For the file `name` in the open folder `folder`, which must outlive it. The temporary file's
  /// name holds host, process and a random number: writers on a shared file system never meet.
  AtomicFile(int folder, std::string name, Durability durability = Durability::synced);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes) { write_bytes(file_.number(), bytes); }
  /// Syncs the content, then renames. False when the target is there already, which stays as it is.
  [[nodiscard]] bool commit();
  /// Commits over an existing target; whoever has the old file open or mapped keeps its content.
  void replace();

 private:
  /// After the last byte.
  void finish();

  int folder_;
  std::string name_;
  Durability durability_;
  std::string temporary_;  ///< empty once it is gone
  OpenFile file_;
};

}  // namespace coconet::jit
