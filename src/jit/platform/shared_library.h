// Libraries of CUDA that are loaded while the process runs: this library links none of them and
// works without.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace coconet::jit {

class SharedLibrary {
 public:
  /// Opens the first of `names` that is found: in a directory of COCONET_CUDA_PATH, where the
  /// system finds libraries, in $CUDA_HOME/lib64, or in /usr/local/cuda/lib64. It stays open until
  /// the process ends: these libraries keep threads and tables.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  /// Why it is not open, as the system's loader puts it.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Looks up the function `name`; null when the library has none.
  template <class Function>
  void find(const char* name, Function*& into) const {
    into = reinterpret_cast<Function*>(symbol(name));
  }
  /// The same, and adds `name` to `missing` when there is none.
  template <class Function>
  void find(const char* name, Function*& into, std::vector<std::string>& missing) const {
    find(name, into);
    if (into == nullptr) missing.emplace_back(name);
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string problem_;
};

}  // namespace coconet::jit
