// Files that the library and its command write for people.
#pragma once

#include <filesystem>
#include <string_view>

namespace coconet::jit {

/// Readers of `file` see the old content or all of `text`. Where it is a symbolic link, what that
/// leads to is written, and the link stays; what is no regular file, as a pipe, /dev/null or
/// /dev/stdout, is written through. Throws BackendError, which calls the file that of `option`.
void write_atomically(const std::filesystem::path& file, std::string_view text,
                      std::string_view option);

}  // namespace coconet::jit
