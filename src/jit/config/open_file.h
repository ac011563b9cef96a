// Files and folders by descriptor: nothing can be put under a name between a check and its use.
#pragma once

#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "coconet/export.h"

namespace coconet::jit {

/// An open file, closed with the object. -1: none.
class COCONET_API OpenFile {
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

/// The result of a system call, made again while signals that the application handles interrupt it.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

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

}  // namespace coconet::jit
