// Where CUDA's libraries are looked for.
#include "jit/platform/shared_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "coconet/config.h"

namespace coconet::jit {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names) {
  namespace fs = std::filesystem;
  // A file that is there and does not load says most; then what the system says of the name alone.
  int weight = 0;
  const auto try_open = [&](const fs::path& path) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return true;
    const char* const reason = dlerror();
    std::error_code ignored;
    const int says = !path.has_parent_path() ? 2 : fs::exists(path, ignored) ? 3 : 1;
    if (says > weight) problem_ = reason != nullptr ? reason : path.string() + " does not load";
    weight = std::max(weight, says);
    return false;
  };
  const auto try_directory = [&](const fs::path& directory) {
    for (const char* name : names) {
      if (try_open(directory / name)) return true;
    }
    return false;
  };
  for (const fs::path& directory : config().cuda_path) {
    if (try_directory(directory)) return;
  }
  if (try_directory({})) return;
  const char* const home = std::getenv("CUDA_HOME");
  if (home != nullptr && try_directory(fs::path(home) / "lib64")) return;
  (void)try_directory("/usr/local/cuda/lib64");
}

void* SharedLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace coconet::jit
