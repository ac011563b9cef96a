// Files and folders by descriptor: nothing can be put under a name between a check and its use.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace coconet::jit {

/// An open file, closed with the object. -1: none.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(int number) : number_(number) {}
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ != -1; }
  /// Gives it away: the caller closes it.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

using FileTime = std::chrono::sys_time<std::chrono::nanoseconds>;
[[nodiscard]] FileTime time_of(const timespec& time);
/// When a file was changed, or what `set_time` said last.
[[nodiscard]] inline FileTime time_of(const struct stat& status) {
  return time_of(status.st_mtim);
}
[[nodiscard]] inline FileTime time_now() {
  return std::chrono::system_clock::now();
}
/// Sets the time of an open file, or of `name` in a folder. False when refused, or the file gone.
[[nodiscard]] bool set_time(int descriptor, FileTime time);
[[nodiscard]] bool set_time(int folder, const std::string& name, FileTime time);

/// open(2) in the folder `at` (AT_FDCWD for paths). Adds O_CLOEXEC, for compilers; retries EINTR.
[[nodiscard]] OpenFile open_at(int at, const std::string& name, int flags, unsigned mode = 0);

/// The first `size` bytes, or all of a shorter file. Throws std::system_error.
[[nodiscard]] std::string read_bytes(int descriptor, std::size_t size);
/// All of `bytes`, at the file's position. Throws std::system_error.
void write_bytes(int descriptor, std::string_view bytes);

/// Calls `visit` with every name but "." and "..", in any order. Throws std::system_error.
void for_each_name(int folder, const std::function<void(const std::string&)>& visit);

/// Throws std::system_error with errno and "WHAT 'NAME'".
[[noreturn]] void throw_errno(const char* what, const std::string& name);

/// What the names of files that are being written begin with.
inline constexpr std::string_view temporary_prefix = ".tmp-";

/// A file that appears under its name whole or not at all: `commit` renames a temporary file beside
/// it, which the destructor removes. Every member throws std::system_error.
class AtomicFile {
 public:
  /// For the file `name` in the open folder `folder`, which must outlive it. The temporary file's
  /// name holds host, process and a random number: writers on a shared file system never meet.
  AtomicFile(int folder, std::string name);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes) { write_bytes(file_.number(), bytes); }
  /// Syncs the content, then renames. False when the target is there already, which stays as it is.
  [[nodiscard]] bool commit();

 private:
  int folder_;
  std::string name_;
  std::string temporary_;  ///< empty once it is gone
  OpenFile file_;
};

}  // namespace coconet::jit
