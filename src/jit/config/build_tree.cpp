// Looks beside the file that this code was loaded from.
#include "jit/config/build_tree.h"

#include <dlfcn.h>
#include <link.h>

#include <fstream>

namespace coconet::jit {
namespace {

/// The file that this code was loaded from: the library, or a program that it is part of.
std::filesystem::path own_file() {
  Dl_info info{};
  link_map* map = nullptr;
  void* const own_code = reinterpret_cast<void*>(&own_file);
  if (dladdr1(own_code, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      map == nullptr)
    return {};
  std::error_code error;
  // The program itself has no name in the loader's list.
  if (*map->l_name == '\0') return std::filesystem::read_symlink("/proc/self/exe", error);
  return std::filesystem::canonical(map->l_name, error);
}

}  // namespace

std::string build_tree_cache_dir() {
  return build_tree_cache_dir(own_file());
}

std::string build_tree_cache_dir(const std::filesystem::path& file) {
  std::string directory;
  if (file.has_parent_path()) {
    std::ifstream stream(file.parent_path() / build_tree_file);
    std::getline(stream, directory);
  }
  return directory.starts_with('/') ? directory : std::string();
}

}  // namespace coconet::jit
