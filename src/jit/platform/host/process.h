// Runs a program to its end: an argv, no shell, output to a file, a bound on its time.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "jit/config/leftovers.h"

namespace coconet::jit {

/// A new directory that only the owner can open, under $TMPDIR or /tmp; removed at the end.
class TemporaryDirectory {
 public:
  /// Throws CompileError when none can be made.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  OpenFile lock_;  ///< the directory, so that it is not taken for what a killed process has left
};

[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// Where execvp would find `name`; empty when nowhere.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);

/// How a program ended.
struct Outcome {
  std::string failure;  ///< a sentence about "it"; empty when it exited with status 0
  std::string printed;
  [[nodiscard]] bool ok() const { return failure.empty(); }
};

/// Runs `arguments[0]`, a path, with `arguments`; its temporary files go to `scratch`. After
/// `timeout` it is killed with all that it started.
[[nodiscard]] Outcome run_program(const std::vector<std::string>& arguments,
                                  const std::filesystem::path& scratch,
                                  std::chrono::milliseconds timeout);

}  // namespace coconet::jit
