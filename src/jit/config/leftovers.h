// What processes that are killed leave behind under temporary names, and its end. Whoever makes
// such a file or directory holds a lock (flock) on it, which the operating system takes from a
// process that ends: what nobody has locked is a leftover.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "jit/config/open_file.h"

namespace coconet::jit {

/// `path`, a file or a directory and no link, locked for as long as it is open. Not open where
/// another process has locked it or it is gone, as when somebody took a new one for a leftover.
[[nodiscard]] OpenFile lock_path(const std::filesystem::path& path);

/// Calls make(), which makes a new file or directory and returns its path, and locks it, until that
/// holds: where there are locks. `lock` gets it. Returns the path; empty where others took each of
/// several. Throws std::system_error, and leaves nothing behind, where this process cannot open
/// what it has made, as when it has no more descriptors.
[[nodiscard]] std::filesystem::path make_locked(const std::function<std::filesystem::path()>& make,
                                                OpenFile& lock);

/// Removes what is in `directory`, this user's, called `prefix` and something, and locked by
/// nobody. `removed` is told of each, and of what went wrong. Throws std::system_error where
/// `directory` is there and cannot be read.
void remove_leftovers(const std::filesystem::path& directory, std::string_view prefix,
                      const std::function<void(const std::filesystem::path& path,
                                               const std::error_code& error)>& removed = {});
/// `remove_leftovers` without errors: a directory that cannot be read keeps its leftovers.
void try_remove_leftovers(const std::filesystem::path& directory, std::string_view prefix);

}  // namespace coconet::jit
