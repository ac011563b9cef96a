// The table of platforms: a row for each, and its folder.
#include <array>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

namespace {

struct Row {
  std::string_view name;              ///< what COCONET_BACKEND calls it
  const Platform& (*of)(Comm& comm);  ///< throws BackendError when there is none
};

constexpr std::array rows{
    Row{"host", [](Comm&) -> const Platform& { return host_platform(); }},
    Row{"cuda", &cuda_platform_of},
};

}  // namespace

const Platform& platform_of(Comm& comm, const Config& config) {
  const auto row = std::ranges::find(rows, config.backend, &Row::name);
  if (row == rows.end())
    throw InternalError("COCONET_BACKEND names no platform: '" + config.backend + "'");
  return row->of(comm);
}

}  // namespace coconet::jit
