// Writing files as a whole.
#include "jit/config/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <random>
#include <system_error>

#include "coconet/error.h"
#include "jit/config/leftovers.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

void write_beside(const fs::path& file, std::string_view text) {
  const fs::path directory = file.has_parent_path() ? file.parent_path() : ".";
  const std::string prefix = fmt::format(".{}.tmp-", file.filename().string());
  try_remove_leftovers(directory, prefix);
  OpenFile lock;
  const fs::path temporary = make_locked(
      [&] {
        fs::path made = directory / fmt::format("{}{:08x}", prefix, std::random_device()());
        const OpenFile opened =
            open_at(AT_FDCWD, made.string(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (!opened.is_open()) throw_errno("cannot create", made.string());
        return made;
      },
      lock);
  try {
    const OpenFile opened = open_at(AT_FDCWD, temporary.string(), O_WRONLY | O_NOFOLLOW);
    if (!opened.is_open()) throw_errno("cannot open", temporary.string());
    write_bytes(opened.number(), text);
    fs::rename(temporary, file);
  } catch (const std::system_error&) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

}  // namespace

void write_atomically(const fs::path& file, std::string_view text, std::string_view option) {
  try {
    write_beside(file, text);
  } catch (const std::system_error& error) {
    throw BackendError(
        fmt::format("Cannot write the file '{}' of {} ({}): is its directory there, and writable?",
                    file.string(), option, error.code().message()));
  }
}

}  // namespace coconet::jit
