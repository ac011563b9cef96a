// Runs shell lines, and single test cases of this program in a process of their own: the
// environment is read once in a process, so that a test of another COCONET_* value needs another
// process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace coconet::test {

struct ChildOutput {
  int code = -1;     ///< exit code; -1 when it died by a signal
  std::string text;  ///< standard output and standard error
};

[[nodiscard]] inline ChildOutput run_shell(const std::string& line) {
  FILE* pipe = popen(("{ " + line + " ; } 2>&1 </dev/null").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + line);
  ChildOutput output;
  char block[4096];
  while (const std::size_t got = std::fread(block, 1, sizeof block, pipe))
    output.text.append(block, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) output.code = WEXITSTATUS(status);
  return output;
}

/// The test cases of this program tagged [`tag`], with `environment` ("NAME=VALUE NAME=VALUE") in
/// front.
[[nodiscard]] inline ChildOutput run_test_case(const std::string& tag,
                                               const std::string& environment) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return run_shell(environment + " '" + self + "' --warn NoTests --use-colour no '[" + tag + "]'");
}

/// The `coconet` command of this build.
[[nodiscard]] inline ChildOutput run_command(const std::string& arguments,
                                             const std::string& environment = "") {
  return run_shell(environment + " '" COCONET_BIN_DIR "/coconet' " + arguments);
}

/// A fresh directory, removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "coconet_test.XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot make a directory " + pattern);
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Regular files below `directory`, which may be missing.
[[nodiscard]] inline int files_in(const std::filesystem::path& directory) {
  int files = 0;
  if (!std::filesystem::exists(directory)) return 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    files += entry.is_regular_file() ? 1 : 0;
  return files;
}

}  // namespace coconet::test
