// Reading whole files that people name: what cannot be read is told apart from what is empty.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace coconet::ir {

/// The bytes of `file`; nothing when it cannot be opened or read, as a directory cannot.
[[nodiscard]] std::optional<std::string> read_file(const std::filesystem::path& file);

}  // namespace coconet::ir
