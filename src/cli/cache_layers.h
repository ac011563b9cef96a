// The directories of the kernel cache, as the configuration names them, for the subcommands of
// `coconet cache`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/cache/directory.h"
#include "jit/cache/inspect.h"

namespace coconet::cli {

struct Layer {
  std::filesystem::path path;
  bool read_only = false;  ///< of COCONET_CACHE_PATH
  std::shared_ptr<const jit::CacheDirectory>
      directory;        ///< null when there is none, or it is not to be used
  std::string problem;  ///< why it is not to be used: a sentence
};

/// The directory that is written, if there is a name for one, and those that are only read, in the
/// order in which a kernel is looked for.
[[nodiscard]] std::vector<Layer> cache_layers();

/// Prints the problems of directories; the exit code.
[[nodiscard]] int complain_of(const std::vector<Layer>& layers);

/// The directory that is written, to remove from it; null when there is none. Throws ConfigError
/// when COCONET_CACHE forbids it, jit::Distrust, and std::system_error.
[[nodiscard]] std::shared_ptr<const jit::CacheDirectory> directory_to_clean();

/// What COCONET_CACHE means for what is shown, as a line; empty when it is rw.
[[nodiscard]] std::string mode_note();

/// What an entry holds, as its key tells.
struct Label {
  std::string kind;    ///< "kernel", "identity", ...
  std::string name;    ///< a kernel's entry point, or what else it is
  std::string target;  ///< of a kernel: "host", "host_threads" or "cuda"
  std::string arch;    ///< of a kernel: "sm_90", or a processor's model
};
[[nodiscard]] Label label_of(std::string_view key_text);

/// "3.4 MiB".
[[nodiscard]] std::string readable_bytes(std::uint64_t bytes);
/// "2026-01-31 12:00", in this process's time zone.
[[nodiscard]] std::string readable_time(jit::FileTime time);
/// "2026-01-31T11:00:00Z".
[[nodiscard]] std::string iso_time(jit::FileTime time);
/// "1 entry", "2 entries".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view one, std::string_view many);

}  // namespace coconet::cli
