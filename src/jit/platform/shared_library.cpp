// Finding and opening libraries.
#include "jit/platform/shared_library.h"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "coconet/config.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

// Adds what a file of the system's loader lists: a directory in each line, or "include PATTERN".
void add_configured(const fs::path& file, int depth, Directories& into) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    if (word != "include") {
      into.emplace_back(word);
      continue;
    }
    while (depth > 0 && words >> word) {
      glob_t found{};
      if (glob((file.parent_path() / word).c_str(), 0, nullptr, &found) == 0) {
        for (std::size_t i = 0; i < found.gl_pathc; ++i)
          add_configured(found.gl_pathv[i], depth - 1, into);
      }
      globfree(&found);
    }
  }
}

// The loader has others, too; a library that is only there must be loaded to be found.
Directories system_directories() {
  Directories directories;
  if (const char* const list = std::getenv("LD_LIBRARY_PATH")) {
    std::istringstream stream(list);
    for (std::string directory; std::getline(stream, directory, ':');)
      directories.emplace_back(directory.empty() ? "." : directory);
  }
  add_configured("/etc/ld.so.conf", 4, directories);
  directories.insert(directories.end(), {"/lib64", "/usr/lib64", "/lib", "/usr/lib"});
  return directories;
}

}  // namespace

Directories cuda_directories() {
  Directories directories = config().cuda_path;
  directories.emplace_back();
  if (const char* const home = std::getenv("CUDA_HOME"))
    directories.push_back(fs::path(home) / "lib64");
  directories.emplace_back("/usr/local/cuda/lib64");
  return directories;
}

fs::path locate_library(std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const fs::path& place : cuda_directories()) {
    const Directories directories = place.empty() ? system_directories() : Directories{place};
    for (const char* const name : names) {
      for (const fs::path& directory : directories) {
        if (fs::is_regular_file(directory / name, ignored)) return directory / name;
      }
    }
  }
  return {};
}

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names,
                             const Directories& directories) {
  // A file that is there and does not load says most; then what the system says of the name alone.
  int weight = 0;
  for (const fs::path& directory : directories) {
    for (const char* const name : names) {
      const fs::path path = directory / name;
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      const char* const reason = dlerror();
      std::error_code ignored;
      const int says = !path.has_parent_path() ? 2 : fs::exists(path, ignored) ? 3 : 1;
      if (says > weight) problem_ = reason != nullptr ? reason : path.string() + " does not load";
      weight = std::max(weight, says);
    }
  }
}

void* SharedLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace coconet::jit
