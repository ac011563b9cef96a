// Configuration from the environment: every COCONET_* variable, read once per process.
#pragma once

#include <chrono>
#include <cstdint>
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
      "auto";  ///< COCONET_OVERLAP: auto, on or off; whether overlapped steps run at once
  /// COCONET_COLLECTIVES: auto or mpi; how library collectives on the host go
  std::string collectives = "auto";
  /// COCONET_FREE_MULTIPROCESSORS: of a GPU, left free by kernels that wait for other ranks
  int free_multiprocessors = 0;
  /// COCONET_CHECK: before every step, whether ranks have the same where they must
  bool check = false;
  int cores = 0;         ///< COCONET_CORES: of a rank on the host; 0: those that it has for itself
  int host_threads = 1;  ///< COCONET_HOST_THREADS: 1, or a multiple of 32 up to 1024
  /// COCONET_ALGORITHM and the variables of the other knobs (coconet/knobs.def): what is set
  /// replaces the knob of every kernel that a schedule makes
  Knobs knobs;
  std::string cxx;        ///< COCONET_CXX: compiler of host kernels; default: the library's
  std::string cxx_flags;  ///< COCONET_CXXFLAGS: appended to the options of host kernels
  /// COCONET_ARCH: the GPU architecture to compile kernels for, "sm_90"; empty: what the command
  /// asks for
  std::string arch;
  bool line_info = false;  ///< COCONET_LINE_INFO: line numbers in GPU kernels, for profilers
  /// COCONET_CUDA_PATH: directories that CUDA's libraries are looked for in first
  std::vector<std::filesystem::path> cuda_path;
  std::filesystem::path cache_dir;  ///< COCONET_CACHE_DIR; default as docs/configuration.md says
  std::string cache = "rw";         ///< COCONET_CACHE: rw, ro or off
  /// COCONET_CACHE_PATH: directories that are only read, after `cache_dir`, such as a site's
  /// kernels
  std::vector<std::filesystem::path> cache_path;
  std::uint64_t cache_max_size = std::uint64_t{1}
                                 << 30;   ///< COCONET_CACHE_MAX_SIZE: bytes; 0: no limit
  std::uint64_t cache_max_files = 20000;  ///< COCONET_CACHE_MAX_FILES: entries; 0: no limit
  int jit_jobs = 0;  ///< COCONET_JIT_JOBS: compilers at once for each process; 0: cores over the
                     ///< processes of a node
  /// COCONET_TUNE: off, cached or on; what `compile` does for an automatic schedule
  std::string tune = "cached";
  /// COCONET_TUNE_S, in seconds: after so long `compile` ends a search that COCONET_TUNE=on makes
  /// it begin, with the best so far
  std::chrono::milliseconds tune_limit{20000};
  /// COCONET_TUNE_FILE: what was measured on this machine; default: tuning.json in `cache_dir`
  std::filesystem::path tune_file;
  /// COCONET_DUMP_DIR: every kernel's source, binary and what its compiler said are written here;
  /// empty: no
  std::filesystem::path dump_dir;
  /// COCONET_HOST_ID: MPI ranks of one machine that have different ones count as on different
  /// nodes; empty: its name
  std::string host_id;
  std::chrono::milliseconds timeout{
      300000};  ///< COCONET_TIMEOUT_S: longest wait for another rank, in seconds
  std::chrono::milliseconds compile_timeout{120000};  ///< COCONET_COMPILE_TIMEOUT_S, in seconds
  /// Member by member.
  bool operator==(const Config&) const = default;
};

/// One variable, for documentation and `coconet doctor`.
struct ConfigVariable {
  std::string_view name;      ///< "COCONET_LOG"
  std::string_view accepts;   ///< "trace, debug, info, warn, error or off"
  std::string_view fallback;  ///< "warn"
  std::string_view meaning;   ///< what it decides
};

/// What the environment says, and no more: the configuration of worlds and executables whose
/// program gives no Options. The first call reads the environment: it warns about unknown
/// COCONET_* names with the nearest known one, and throws ConfigError naming the variable, its
/// value and what is accepted.
[[nodiscard]] COCONET_API const Config& config();

/// All variables, in the order of `Config`.
[[nodiscard]] COCONET_API const std::vector<ConfigVariable>& config_variables();

}  // namespace coconet
