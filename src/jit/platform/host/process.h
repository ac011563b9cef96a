// Runs a program to its end: an argv, no shell, output to a file, a bound on its time.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace coconet::jit {

/// A new directory that only the owner can open, under $TMPDIR or /tmp; removed with its content by
/// the destructor.
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
};

/// How a program ended.
struct Outcome {
  bool ok = false;      ///< it exited with status 0
  std::string failure;  ///< else how it ended, a sentence about "it"
};

/// Runs `arguments[0]`, a path, with `arguments`; what it prints goes to the file `log`, its own
/// temporary files to `scratch`. After `timeout` it is killed with all that it started.
[[nodiscard]] Outcome run_program(const std::vector<std::string>& arguments,
                                  const std::filesystem::path& log,
                                  const std::filesystem::path& scratch,
                                  std::chrono::milliseconds timeout);

}  // namespace coconet::jit
