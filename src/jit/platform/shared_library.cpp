// Finding and opening libraries.
#include "jit/platform/shared_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "coconet/config.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> matching(const fs::path& pattern) {
  std::vector<fs::path> files;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

Directories directories_in(const char* variable) {
  Directories directories;
  const char* const list = std::getenv(variable);
  std::istringstream stream(list == nullptr ? "" : list);
  for (std::string directory; std::getline(stream, directory, ':');)
    directories.emplace_back(directory.empty() ? "." : directory);
  return directories;
}

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
      for (const fs::path& included : matching(file.parent_path() / word))
        add_configured(included, depth - 1, into);
    }
  }
}

// The loader has others, too; a library that is only there must be loaded to be found.
Directories system_directories() {
  Directories directories = directories_in("LD_LIBRARY_PATH");
  add_configured("/etc/ld.so.conf", 4, directories);
  directories.insert(directories.end(), {"/lib64", "/usr/lib64", "/lib", "/usr/lib"});
  return directories;
}

// Adds where the Python of `prefix` keeps NVIDIA's packages: nvidia/cu13/lib, nvidia/nccl/lib.
void add_packages(const fs::path& prefix, Directories& into) {
  for (const char* const packages : {"lib/python3*/site-packages", "lib/python3*/dist-packages",
                                     "lib64/python3*/site-packages"}) {
    const Directories found = matching(prefix / packages / "nvidia/*/lib");
    into.insert(into.end(), found.begin(), found.end());
  }
}

void add_python(Directories& into) {
  if (const char* const environment = std::getenv("VIRTUAL_ENV")) add_packages(environment, into);
  if (const char* const environment = std::getenv("CONDA_PREFIX")) {
    into.push_back(fs::path(environment) / "lib");
    add_packages(environment, into);
  }
  std::error_code ignored;
  for (const fs::path& directory : directories_in("PATH")) {
    if (!fs::exists(directory / "python3", ignored)) continue;
    // An environment's python3 is a link to another prefix, which is not followed.
    const fs::path prefix = directory.parent_path();
    add_packages(prefix, into);
    if (prefix == "/usr") add_packages("/usr/local", into);  // pip of a distribution
    return;
  }
}

}  // namespace

Directories cuda_directories() {
  Directories directories = config().cuda_path;
  directories.emplace_back();
  if (const char* const home = std::getenv("CUDA_HOME"))
    directories.push_back(fs::path(home) / "lib64");
  directories.emplace_back("/usr/local/cuda/lib64");
  add_python(directories);
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

void SharedLibrary::close() {
  if (handle_ != nullptr) dlclose(handle_);
  handle_ = nullptr;
}

std::string SharedLibrary::file() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return {};
  return map->l_name;
}

void* SharedLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace coconet::jit
