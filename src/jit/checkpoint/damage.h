// What is wrong with a checkpoint, and where.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string_view>

#include "coconet/error.h"

namespace coconet::jit {

/// The content of a checkpoint is not what was written: an older checkpoint may serve instead.
class Damage : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
  /// "'FILE' is damaged at byte N: WHAT". `what` is a clause.
  Damage(const std::filesystem::path& file, std::uint64_t byte, std::string_view what);
};

/// Throws CheckpointError with an errno: "Cannot WHAT 'FILE': No space left on device."
[[noreturn]] void throw_file_error(std::string_view what, const std::filesystem::path& file,
                                   int error = errno);

}  // namespace coconet::jit
