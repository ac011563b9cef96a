// Where temporary files lie whose names nobody else may change.
#pragma once

#include <filesystem>

namespace coconet::jit {

/// $TMPDIR, or /tmp: the first in which other users cannot put something else under the name of
/// this one's directory, as they can where they may write and there is no sticky bit. A warning
/// says why $TMPDIR is passed over. Throws ConfigError where /tmp is no better.
[[nodiscard]] std::filesystem::path temporary_place();

}  // namespace coconet::jit
