// Runs a program to its end: an argv, no shell, a directory of its own, a bound on its time.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace coconet::jit {

/// A path under $TMPDIR or /tmp for a directory that is not there yet. Removes what earlier
/// processes may have left under such names.
[[nodiscard]] std::filesystem::path name_directory();

/// What is run, and in which directory: only this user can open it, the program's temporary files
/// go there, and it is gone when the program has ended or this process is killed. A program that is
/// stopped, since it takes too long or this process ends, is killed with all that it started; what
/// one that ends by itself has started goes on.
struct ProgramRun {
  std::filesystem::path directory = name_directory();
  std::vector<std::string> arguments = {};  ///< the first is a path
  std::chrono::milliseconds timeout{};      ///< then it is stopped
  std::string input_name = {};              ///< of a file in the directory; empty: none
  std::string_view input = {};              ///< what that file holds
  std::string output_name = {};  ///< of a file that the program leaves there; empty: none
};

/// How a program ended.
struct Outcome {
  std::string failure;  ///< a sentence about "it"; empty when it exited with status 0
  std::string printed;
  std::string output;  ///< empty where it has failed or left no such file
  [[nodiscard]] bool ok() const { return failure.empty(); }
};

/// Does that and waits. It is right whatever the application does about SIGCHLD, which it does not
/// get. Throws CompileError where there is no place for the directory or the input.
[[nodiscard]] Outcome run_program(const ProgramRun& run);

/// Where execvp would find `name`; empty when nowhere.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);

}  // namespace coconet::jit
