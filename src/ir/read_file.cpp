// Reads regular files whole; opens nothing that would wait.
#include "ir/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

namespace coconet::ir {
namespace {

FileText not_read(int error) {
  return {.is_missing = error == ENOENT || error == ENOTDIR,
          .problem = std::generic_category().message(error)};
}

/// Why a file of that mode is not read; empty of a regular one.
std::string kind_problem(mode_t mode) {
  if (S_ISREG(mode)) return {};
  if (S_ISDIR(mode)) return "it is a directory";
  if (S_ISFIFO(mode)) return "it is a pipe, and only files are read";
  return "it is a device or a socket, and only files are read";
}

/// What the system makes as it is read, as in /proc, has no length before, and may have no end.
constexpr std::size_t most_mib_without_length = 64;

/// Up to `most` bytes, of which `length` are expected, or all of a shorter file. Nothing where the
/// system refuses, as errno says.
std::optional<std::string> read(std::FILE* stream, std::size_t most, std::size_t length) {
  constexpr std::size_t first = std::size_t{1} << 16;
  std::string text;
  text.reserve(length);
  for (std::size_t wanted = std::min(first, most); text.size() < wanted;
       wanted = std::min(2 * wanted, most)) {
    const std::size_t have = text.size();
    text.resize(wanted);
    text.resize(have + std::fread(text.data() + have, 1, wanted - have, stream));
    if (std::ferror(stream) != 0) return std::nullopt;
    if (text.size() < wanted) break;
  }
  return text;
}

}  // namespace

FileText read_file(const std::filesystem::path& file) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor == -1) {
    const int error = errno;
    struct stat status {};
    const std::string kind = stat(file.c_str(), &status) == 0 ? kind_problem(status.st_mode) : "";
    return kind.empty() ? not_read(error) : FileText{.is_no_file = true, .problem = kind};
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(fdopen(descriptor, "rb"),
                                                               std::fclose);
  struct stat status {};
  if (!stream || fstat(descriptor, &status) == -1) {
    const int error = errno;
    if (!stream) close(descriptor);
    return not_read(error);
  }
  if (std::string kind = kind_problem(status.st_mode); !kind.empty())
    return {.is_no_file = true, .problem = std::move(kind)};
  const auto length = static_cast<std::size_t>(status.st_size);
  try {
    constexpr std::size_t most = most_mib_without_length << 20;
    auto bytes = read(stream.get(), length == 0 ? most + 1 : length, length);
    if (!bytes) return not_read(errno);
    if (length == 0 && bytes->size() > most)
      return {.problem = "it does not say its length, and has more than " +
                         std::to_string(most_mib_without_length) + " MiB"};
    return {.bytes = std::move(bytes)};
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return {.problem = "there is no memory for its " + std::to_string(length) + " bytes"};
}

}  // namespace coconet::ir
