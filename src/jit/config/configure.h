// The configuration of a world or an executable: the environment's, and the program's options.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coconet/config.h"
#include "coconet/export.h"
#include "coconet/options.h"

namespace coconet::jit {

/// `base` with `options`, over which the environment wins; that is logged. Sets the log's level.
/// Throws ConfigError naming the option, its value and what it takes.
[[nodiscard]] COCONET_API std::shared_ptr<const Config> configure(const Options& options,
                                                                  const Config& base = config());

/// What of `config` all ranks must have alike, "COCONET_BACKEND=host", a text for each variable.
[[nodiscard]] COCONET_API std::vector<std::string> common_settings(const Config& config);

}  // namespace coconet::jit
