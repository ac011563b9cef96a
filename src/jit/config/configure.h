// The configuration of a world or an executable: the environment's, and the program's options.
#pragma once

#include <memory>

#include "coconet/config.h"
#include "coconet/export.h"
#include "coconet/options.h"

namespace coconet::jit {

/// `base` with `options`, over which the environment wins; that is logged. Sets the log's level.
/// Throws ConfigError naming the option, its value and what it takes.
[[nodiscard]] COCONET_API std::shared_ptr<const Config> configure(const Options& options,
                                                                  const Config& base = config());

}  // namespace coconet::jit
