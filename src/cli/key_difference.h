// How a key differs from another, for people.
#pragma once

#include <string>
#include <vector>

#include "jit/cache/key.h"

namespace coconet::cli {

/// Lines that say what is wanted in the field that differs and what an entry has: of values of
/// several lines the first that differs, with its number, and of a processor's features those that
/// only one of them has. Long lines are cut to the difference.
[[nodiscard]] std::vector<std::string> describe(const jit::KeyDifference& difference);

/// The tags of the fields that differ after the first, which is `first`.
[[nodiscard]] std::vector<std::string> further_differences(std::string_view wanted,
                                                           std::string_view found,
                                                           std::string_view first);

}  // namespace coconet::cli
