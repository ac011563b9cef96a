// What tells a library in its build tree from an installed one, which has the same bytes.
#pragma once

#include <filesystem>
#include <string>

namespace coconet::jit {

/// The file that a build tree has beside its programs and libraries: one line, the directory in
/// which they keep compiled kernels. It is not installed.
inline constexpr const char* build_tree_file = "coconet-jit.kernel-cache";

/// The directory that the build tree around this library names; empty where the library is not in
/// one. Whoever can write beside the library can replace it, so the file needs no more trust than
/// the library itself.
[[nodiscard]] std::string build_tree_cache_dir();

/// The directory that the build tree around the program or library `file` names.
[[nodiscard]] std::string build_tree_cache_dir(const std::filesystem::path& file);

}  // namespace coconet::jit
