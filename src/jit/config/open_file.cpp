// Thin layers over system calls.
#include "jit/config/open_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <system_error>

namespace coconet::jit {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace
OpenFile::~OpenFile() {
  if (number_ != -1) close(number_);
}

OpenFile open_at(int at, const std::string& name, int flags, unsigned mode) {
  return OpenFile(uninterrupted([&] { return openat(at, name.c_str(), flags | O_CLOEXEC, mode); }));
}

std::string read_bytes(int descriptor, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = uninterrupted([&] {
      return pread(descriptor, bytes.data() + have, size - have, static_cast<off_t>(have));
    });
    if (got == -1) fail("cannot read");
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

void write_bytes(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return write(descriptor, bytes.data(), bytes.size()); });
    if (written == 0) errno = EIO;  // no progress and no reason: not worth trying for ever
    if (written <= 0) fail("cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void for_each_name(int folder, const std::function<void(const std::string&)>& visit) {
  // A descriptor of its own, which closedir closes.
  OpenFile again = open_at(folder, ".", O_RDONLY | O_DIRECTORY);
  if (!again.is_open()) fail("cannot list");
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(again.number()), closedir);
  if (!listing) fail("cannot list");
  (void)again.release();  // the listing owns it now
  errno = 0;
  while (const dirent* const row = readdir(listing.get())) {
    const std::string name = row->d_name;
    if (name != "." && name != "..") visit(name);
    errno = 0;
  }
  if (errno != 0) fail("cannot list");
}

void throw_errno(const char* what, const std::string& name) {
  const int error = errno;  // before anything that may change it
  throw std::system_error(error, std::generic_category(), fmt::format("{} '{}'", what, name));
}

}  // namespace coconet::jit
