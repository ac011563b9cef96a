// Libraries that are loaded while the process runs: this library links none of them and works
// without.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace coconet::jit {

/// What there is of a library on this machine, told without throwing.
struct LibraryFacts {
  std::string version;    ///< "13.0.2"; empty when there is none
  std::string problem;    ///< why it cannot be used; empty when it can
  std::string file = {};  ///< that it was loaded from
};

using Directories = std::vector<std::filesystem::path>;

/// Where CUDA's libraries are looked for: COCONET_CUDA_PATH; where the system finds libraries,
/// which is the empty path; $CUDA_HOME/lib64; /usr/local/cuda/lib64; and Python's environments,
/// where pip puts them in site-packages/nvidia/*/lib: of VIRTUAL_ENV, of CONDA_PREFIX, whose lib
/// has conda's, and of the first python3 on PATH.
[[nodiscard]] Directories cuda_directories();

/// The file that `SharedLibrary` would open, found without loading it; empty when none is. The
/// system's directories are those of LD_LIBRARY_PATH and of its loader.
[[nodiscard]] std::filesystem::path locate_library(std::initializer_list<const char*> names);

class SharedLibrary {
 public:
  /// Opens the first of `names` in the first directory that has one. It stays open until the
  /// process ends, unless it is closed: these libraries keep threads and tables.
  explicit SharedLibrary(std::initializer_list<const char*> names,
                         const Directories& directories = cuda_directories());

  /// Closes it, for one that is to be loaded anew. What was found in it is gone.
  void close();

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  /// The file that is open, as the system's loader names it.
  [[nodiscard]] std::string file() const;
  /// Why it is not open, as the system's loader puts it.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Looks up the function `name`; null, and added to `missing`, when the library has none.
  template <class Function>
  void find(const char* name, Function*& into, std::vector<std::string>& missing) const {
    into = reinterpret_cast<Function*>(symbol(name));
    if (into == nullptr) missing.emplace_back(name);
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string problem_;
};

/// Fills `table`, made by COCONET_FUNCTION_TABLE, with the functions of the library `name`. Why it
/// is not whole; empty when it is.
template <class Table>
std::string find_functions(Table& table, const SharedLibrary& file, const std::string& name) {
  const std::vector<std::string> missing = table.find_in(file);
  if (!file.is_open()) return file.problem();
  return missing.empty() ? "" : name + " is there and has no function " + missing.front();
}

}  // namespace coconet::jit

// A struct of pointers to a library's functions, and a member that finds them and returns those
// that are missing. FUNCTIONS(ROW) has a ROW(member, function) for each function of the library's
// header. Where that is a macro for a versioned name, as cuMemAlloc is for cuMemAlloc_v2, the
// symbol and the type are those of the version.
#define COCONET_FUNCTION_TABLE(Name, FUNCTIONS)                   \
  struct Name {                                                   \
    FUNCTIONS(COCONET_TABLE_MEMBER)                               \
    std::vector<std::string> find_in(const SharedLibrary& file) { \
      std::vector<std::string> missing;                           \
      FUNCTIONS(COCONET_TABLE_FIND)                               \
      return missing;                                             \
    }                                                             \
  }
#define COCONET_TABLE_MEMBER(member, function) decltype(&::function) member = nullptr;
#define COCONET_TABLE_FIND(member, function) file.find(COCONET_SYMBOL(function), member, missing);
#define COCONET_SYMBOL(function) COCONET_STRING_OF(function)
#define COCONET_STRING_OF(text) #text
