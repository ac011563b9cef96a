// Configuration from the environment: every COCONET_* variable, read once per process.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/export.h"
#include "coconet/schedule.h"

namespace coconet {

/// What the COCONET_* variables say.
struct Config {
  std::string log_level = "warn";  ///< COCONET_LOG: trace, debug, info, warn, error or off
  std::string backend = "host";    ///< COCONET_BACKEND: host or cuda
  std::string graph = "auto";      ///< COCONET_GRAPH: auto, on or off; CUDA graphs of whole steps
  std::string overlap =
      "auto";            ///< COCONET_OVERLAP: auto, on or off; whether overlapped steps run at once
  int host_threads = 1;  ///< COCONET_HOST_THREADS: 1, or a multiple of 32 up to 1024
  /// COCONET_ALGORITHM, _PROTOCOL, _CHANNELS, _THREADS, _VECTOR_BYTES and _CHUNK_BYTES: what is set replaces the knob of
  /// every kernel that a schedule makes
  Knobs knobs;
  std::string cxx;        ///< COCONET_CXX: compiler of host kernels; default: the library's
  std::string cxx_flags;  ///< COCONET_CXXFLAGS: appended to the options of host kernels
  /// COCONET_ARCH: the GPU architecture to compile kernels for, "sm_90"; empty: what the command asks for
  std::string arch;
  bool line_info = false;  ///< COCONET_LINE_INFO: line numbers in GPU kernels, for profilers
  /// COCONET_CUDA_PATH: directories that CUDA's libraries are looked for in first
  std::vector<std::filesystem::path> cuda_path;
  std::filesystem::path cache_dir;  ///< COCONET_CACHE_DIR; default as docs/configuration.md says
  std::string cache = "rw";         ///< COCONET_CACHE: rw, ro or off
  std::filesystem::path
      dump_dir;  ///< COCONET_DUMP_DIR: writes every kernel's source here; empty: no
  /// COCONET_HOST_ID: MPI ranks of one machine that have different ones count as on different nodes; empty: its name
  std::string host_id;
  std::chrono::milliseconds timeout{
      60000};  ///< COCONET_TIMEOUT_S: longest wait for another rank, in seconds
  std::chrono::milliseconds compile_timeout{120000};  ///< COCONET_COMPILE_TIMEOUT_S, in seconds
};

/// One variable, for documentation and `coconet doctor`.
struct ConfigVariable {
  std::string_view name;      ///< "COCONET_LOG"
  std::string_view accepts;   ///< "trace, debug, info, warn, error or off"
  std::string_view fallback;  ///< "warn"
  std::string_view meaning;
};

/// The process's configuration. The first call reads the environment: it warns about unknown COCONET_* names
/// with the nearest known one, and throws ConfigError naming the variable, its value and what is accepted.
[[nodiscard]] COCONET_API const Config& config();

/// All variables, in the order of `Config`.
[[nodiscard]] COCONET_API const std::vector<ConfigVariable>& config_variables();

}  // namespace coconet
