// Reading ranges of a file of a checkpoint; see file_reader.h.
#include "jit/checkpoint/file_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "jit/checkpoint/damage.h"

namespace coconet::jit {
namespace {

/// Bytes of a regular file.
std::uint64_t size_of(const OpenFile& file, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(file.number(), &status) == -1) throw_file_error("look at", path);
  if (!S_ISREG(status.st_mode)) throw Damage(path, 0, "it is no file");
  return static_cast<std::uint64_t>(status.st_size);
}

OpenFile open_to_read(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  OpenFile file = open_at(AT_FDCWD, path.string(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (file.is_open()) return file;
  if (errno == ENOENT || errno == ENOTDIR) throw Damage(path, 0, "it is missing");
  if (errno == ELOOP) throw Damage(path, 0, "it is a symbolic link, and no file");
  throw_file_error("open", path);
}

void read_all(const OpenFile& file, std::uint64_t offset, std::byte* to, std::size_t bytes,
              const std::filesystem::path& path) {
  while (bytes > 0) {
    const ssize_t got = pread(file.number(), to, bytes, static_cast<off_t>(offset));
    if (got == -1 && errno == EINTR) continue;
    if (got == 0) throw Damage(path, offset, "it ends there");
    if (got == -1) throw_file_error("read", path);
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

}  // namespace

FileReader::FileReader(const std::filesystem::path& directory, const SavedFile& file)
    : path_(directory / file.name), saved_(file), file_(open_to_read(path_)) {
  const std::uint64_t bytes = size_of(file_, path_);
  if (bytes != saved_.bytes) {
    throw Damage(path_, std::min(bytes, saved_.bytes),
                 fmt::format("it has {} bytes, and {} were saved", bytes, saved_.bytes));
  }
  (void)posix_fadvise(file_.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

std::size_t FileReader::bytes_of(std::uint64_t index) const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(block_bytes, saved_.bytes - index * block_bytes));
}

void FileReader::read_block(std::uint64_t index, std::byte* to) {
  const std::uint64_t offset = index * block_bytes;
  const std::size_t bytes = bytes_of(index);
  read_all(file_, offset, to, bytes, path_);
  const std::uint64_t found = XXH3_64bits(to, bytes);
  if (found == saved_.checksums[index]) return;
  throw Damage(path_, offset,
               fmt::format("the {} bytes from there on have the checksum {:016x}, and {:016x} was "
                           "saved",
                           bytes, found, saved_.checksums[index]));
}

void FileReader::read(std::uint64_t offset, std::size_t bytes, std::byte* to) {
  while (bytes > 0) {
    const std::uint64_t index = offset / block_bytes;
    const std::size_t begin = offset % block_bytes;
    const std::size_t count = std::min(bytes, bytes_of(index) - begin);
    if (index != index_ && count == bytes_of(index)) {  // all of it, to where it belongs
      read_block(index, to);
    } else {
      if (index != index_) {
        index_ = none;
        block_.resize(block_bytes);
        read_block(index, block_.data());
        index_ = index;
      }
      std::memcpy(to, block_.data() + begin, count);
    }
    to += count;
    offset += count;
    bytes -= count;
  }
}

std::string read_saved_text(const std::filesystem::path& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  const OpenFile file = open_to_read(path);
  const std::uint64_t bytes = size_of(file, path);
  if (bytes > most)
    throw Damage(path, most, fmt::format("it has {} bytes; at most {} are read", bytes, most));
  std::string text(static_cast<std::size_t>(bytes), '\0');
  read_all(file, 0, reinterpret_cast<std::byte*>(text.data()), text.size(), path);
  return text;
}

}  // namespace coconet::jit
