// The table of platforms: a row for each, and its folder.
#include <array>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/host/compiler.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

namespace {

struct Row {
  std::string_view name;              ///< what COCONET_BACKEND calls it
  const Platform& (*of)(Comm& comm);  ///< throws BackendError when there is none
  Target target;
};

std::unique_ptr<Compiler> make_host_compiler(std::string_view, const Config& config, int) {
  return std::make_unique<HostCompiler>(config.cxx, config.cxx_flags, config.compile_timeout,
                                        config.host_threads);
}
std::unique_ptr<Compiler> make_nvrtc_compiler(std::string_view arch, const Config& config,
                                              int ranks) {
  return std::make_unique<NvrtcCompiler>(arch, config.line_info, ranks);
}

constexpr std::array rows{
    Row{"host",
        [](Comm&) -> const Platform& { return host_platform(); },
        {.immediate = true, .make_compiler = make_host_compiler}},
    Row{"cuda", &cuda_platform_of, {.immediate = false, .make_compiler = make_nvrtc_compiler}},
};

}  // namespace

const Platform& platform_of(Comm& comm, const Config& config) {
  const auto row = std::ranges::find(rows, config.backend, &Row::name);
  if (row == rows.end())
    throw InternalError("COCONET_BACKEND names no platform: '" + config.backend + "'");
  return row->of(comm);
}

const Target& target_of(std::string_view arch) {
  return rows[arch == "host" ? 0 : 1].target;
}

}  // namespace coconet::jit
