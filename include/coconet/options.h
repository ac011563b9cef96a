// Options: what an application sets itself, beside what its users set in the environment.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace coconet {

/// Settings of a World, for all that is compiled there, or of one `compile`, over the World's. What
/// is left out stays as it is. A COCONET_* variable that is set wins over the program's value,
/// which is logged at level info. Values are checked where they are given: ConfigError names the
/// option, its value and what it takes, in the words of docs/configuration.md. All ranks must be
/// given the same `backend`, `overlap` and `check`; of the timeouts the shortest counts.
struct Options {
  std::optional<std::string> backend = {};              ///< "host" or "cuda"; COCONET_BACKEND
  std::optional<std::string> overlap = {};              ///< "auto", "on" or "off"; COCONET_OVERLAP
  std::optional<int> cores = {};                        ///< 1 to 1024; COCONET_CORES
  std::optional<bool> check = {};                       ///< COCONET_CHECK
  std::optional<std::filesystem::path> cache_dir = {};  ///< COCONET_CACHE_DIR
  std::optional<int> jit_jobs = {};                     ///< 1 to 1024; COCONET_JIT_JOBS
  /// Longest wait for another rank, above 0; COCONET_TIMEOUT_S. Of a World for its making, barriers
  /// and allocations, of `compile` for the steps of that executable.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Longest run of a compiler, above 0; COCONET_COMPILE_TIMEOUT_S
  std::optional<std::chrono::milliseconds> compile_timeout = {};
  /// "trace", "debug", "info", "warn", "error" or "off"; COCONET_LOG. The log is the process's: the
  /// last level that was set holds.
  std::optional<std::string> log_level = {};
};

}  // namespace coconet
