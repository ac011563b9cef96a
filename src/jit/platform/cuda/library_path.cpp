// The directories of LD_LIBRARY_PATH, of /etc/ld.so.conf and of CUDA. The loader knows further
// ones; what is only there is loaded to be known.
#include "jit/platform/cuda/library_path.h"

#include <glob.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "coconet/config.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

void add_listed(const char* list, std::vector<fs::path>& into) {
  if (list == nullptr) return;
  std::istringstream stream(list);
  for (std::string directory; std::getline(stream, directory, ':');)
    into.emplace_back(directory.empty() ? "." : directory);
}

// A directory in each line, or "include PATTERN".
void add_configured(const fs::path& file, int depth, std::vector<fs::path>& into) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    if (word != "include") {
      into.emplace_back(word);
      continue;
    }
    glob_t found{};
    while (depth > 0 && words >> word) {
      const std::string pattern = (file.parent_path() / word).string();
      if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        for (std::size_t i = 0; i < found.gl_pathc; ++i)
          add_configured(found.gl_pathv[i], depth - 1, into);
      }
      globfree(&found);
    }
  }
}

fs::path find_in(const std::vector<fs::path>& directories, std::initializer_list<const char*> names,
                 bool name_by_name) {
  std::error_code ignored;
  const auto there = [&](const fs::path& path) { return fs::is_regular_file(path, ignored); };
  if (name_by_name) {
    for (const char* name : names) {
      for (const fs::path& directory : directories) {
        if (there(directory / name)) return directory / name;
      }
    }
    return {};
  }
  for (const fs::path& directory : directories) {
    for (const char* name : names) {
      if (there(directory / name)) return directory / name;
    }
  }
  return {};
}

}  // namespace

fs::path locate_library(std::initializer_list<const char*> names) {
  if (fs::path found = find_in(config().cuda_path, names, false); !found.empty()) return found;
  std::vector<fs::path> system;
  add_listed(std::getenv("LD_LIBRARY_PATH"), system);
  add_configured("/etc/ld.so.conf", 4, system);
  for (const char* directory : {"/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    system.emplace_back(directory);
  if (fs::path found = find_in(system, names, true); !found.empty()) return found;
  std::vector<fs::path> last;
  if (const char* home = std::getenv("CUDA_HOME")) last.push_back(fs::path(home) / "lib64");
  last.emplace_back("/usr/local/cuda/lib64");
  return find_in(last, names, false);
}

}  // namespace coconet::jit
