// Shared objects of kernels: whether bytes are a whole one, and loading it from where nobody else
// can change it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "jit/config/open_file.h"

namespace coconet::jit {

/// Why the system's loader must not be given `bytes`: "it is cut off: ...", a sentence about "it";
/// empty where they are a shared object of this machine with all that its headers speak of. The
/// loader maps a file as these say, and touching a page that the file does not have is SIGBUS.
[[nodiscard]] std::string shared_object_problem(std::string_view bytes);

/// A shared object, loaded as long as it lives. Its file stays open as long: the loader knows
/// objects by path, and /proc/self/fd/N must not come to name another one.
class SharedObject {
 public:
  /// Loads `binary`, from `file` where that is open and can be loaded from, as a file system that
  /// is mounted noexec cannot, else from memory. `file` holds just `binary`, and nobody else can
  /// change it. Throws BackendError, which names the kernel `name`.
  SharedObject(std::string_view binary, const std::string& name, OpenFile file = {});

  /// Null when it has no such symbol.
  [[nodiscard]] void* find(const std::string& symbol) const;

 private:
  struct Close {
    void operator()(void* handle) const;
  };
  OpenFile file_;
  std::unique_ptr<void, Close> handle_;
};

}  // namespace coconet::jit
