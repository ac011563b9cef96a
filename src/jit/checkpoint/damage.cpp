// What is wrong with a checkpoint, and where.
#include "jit/checkpoint/damage.h"

#include <fmt/format.h>

#include <system_error>

namespace coconet::jit {

Damage::Damage(const std::filesystem::path& file, std::uint64_t byte, std::string_view what)
    : CheckpointError(fmt::format("'{}' is damaged at byte {}: {}", file.string(), byte, what)) {}

void throw_file_error(std::string_view what, const std::filesystem::path& file, int error) {
  throw CheckpointError(fmt::format("Cannot {} '{}': {}.", what, file.string(),
                                    std::generic_category().message(error)));
}

}  // namespace coconet::jit
