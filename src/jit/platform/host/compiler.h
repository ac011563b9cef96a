// Compiles kernel text to a shared object with the system C++ compiler.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "jit/platform/compiler.h"

namespace coconet::jit {

class HostCompiler final : public Compiler {
 public:
  /// `compiler`: a path or a name on PATH. `extra_flags`: split at blanks, appended. `threads` of a
  /// block: more than 1 are threads of the machine. Throws CompileError, naming COCONET_CXX, when
  /// there is no such program or it cannot run.
  HostCompiler(const std::string& compiler, const std::string& extra_flags,
               std::chrono::milliseconds timeout, int threads = 1);

  /// Its start, the prelude and the linker take as long as a kernel.
  [[nodiscard]] bool has_batches() const override { return true; }
  /// A death by signal or a timeout is a failure with a log that says so.
  [[nodiscard]] CompileResult compile(std::string_view source,
                                      std::chrono::milliseconds limit = {}) const override;

  /// Resolved path.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// What it says of its version and its target, and digests of its files: the same on all machines
  /// that have it, and another one when it changes. Of a script or a launcher such as ccache, which
  /// starts the compiler proper, no more than its own file's.
  [[nodiscard]] const std::string& identity() const { return facts_.identity; }
  /// The instruction set that the options resolve to on this machine: a line with the processor's
  /// model, and one with all its features.
  [[nodiscard]] static std::string resolved_isa();
  /// The options, in order, without file names.
  [[nodiscard]] const std::vector<std::string>& options() const { return facts_.options; }

 private:
  std::string path_;
  std::chrono::milliseconds timeout_;
};

}  // namespace coconet::jit
