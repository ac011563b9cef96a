// What a compiler says of itself: asked once, and remembered as long as its file stays the same.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace coconet::jit {

/// What `ask` answers about the program or library `file`; remembered until its path, size, inode
/// or times change. `what` is what is asked: "C++ compiler".
[[nodiscard]] std::string remembered_of(const std::filesystem::path& file, std::string_view what,
                                        const std::function<std::string()>& ask);

/// SHA-256 of a file's content, 64 digits. Throws CompileError when it cannot be read.
[[nodiscard]] std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace coconet::jit
