// What ranks tell each other before they share anything.
#pragma once

#include <span>
#include <string>

#include "coconet/config.h"
#include "coconet/export.h"

namespace coconet::jit {

/// What a rank with `config` says of itself: the library's version, and the settings that all ranks
/// must have alike, in lines.
[[nodiscard]] COCONET_API std::string introduction(const Config& config);

/// Throws CommError where they differ, given in the order of the ranks: it names those that differ
/// from rank 0 in the first such line, and both lines.
COCONET_API void require_alike(std::span<const std::string> introductions);

/// Processes with equal names share memory: those of one boot of one machine, or container, with
/// the same COCONET_HOST_ID. The first word is what messages call the node.
[[nodiscard]] COCONET_API std::string name_of_node(const Config& config);

}  // namespace coconet::jit
