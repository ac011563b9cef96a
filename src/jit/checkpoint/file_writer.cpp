// Writing a file of a checkpoint; see file_writer.h.
#include "jit/checkpoint/file_writer.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "jit/checkpoint/damage.h"

namespace coconet::jit {
namespace {

/// The disk is told to begin with what was written each time that there is this much, so that it
/// writes while more is copied.
constexpr std::uint64_t write_behind = 32 * block_bytes;

void write_all(const OpenFile& file, std::string_view text, const std::filesystem::path& path) {
  try {
    write_bytes(file.number(), text);
  } catch (const std::system_error& error) {
    throw_file_error("write", path, error.code().value());
  }
}

OpenFile create(const std::filesystem::path& path) {
  OpenFile file = open_at(AT_FDCWD, path.string(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (!file.is_open()) throw_file_error("create", path);
  return file;
}

void sync_and_close(OpenFile& file, const std::filesystem::path& path) {
  if (uninterrupted([&] { return fsync(file.number()); }) == -1) throw_file_error("write", path);
  // Network file systems report late write errors here. EINTR: Linux has closed it all the same.
  if (close(file.release()) == -1 && errno != EINTR) throw_file_error("write", path);
}

}  // namespace

FileWriter::FileWriter(std::filesystem::path path) : path_(std::move(path)), file_(create(path_)) {
  pending_.reserve(block_bytes);
}

void FileWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_bytes - pending_.size());
    const auto next = bytes.first(count);
    bytes = bytes.subspan(count);
    if (count == block_bytes) {  // from where it is
      write_block(next);
      continue;
    }
    pending_.insert(pending_.end(), next.begin(), next.end());
    if (pending_.size() < block_bytes) continue;
    write_block(pending_);
    pending_.clear();
  }
}

void FileWriter::write_block(std::span<const std::byte> block) {
  // First, so that the copy into the page cache finds the block in the processor's.
  saved_.checksums.push_back(XXH3_64bits(block.data(), block.size()));
  write_all(file_, {reinterpret_cast<const char*>(block.data()), block.size()}, path_);
  saved_.bytes += block.size();
  if (saved_.bytes % write_behind == 0) {
    (void)sync_file_range(file_.number(), static_cast<off64_t>(saved_.bytes - write_behind),
                          static_cast<off64_t>(write_behind), SYNC_FILE_RANGE_WRITE);
  }
}

SavedFile FileWriter::finish() {
  if (!pending_.empty()) write_block(pending_);
  sync_and_close(file_, path_);
  return std::move(saved_);
}

void write_saved_text(const std::filesystem::path& path, std::string_view text) {
  OpenFile file = create(path);
  write_all(file, text, path);
  sync_and_close(file, path);
}

void sync_directory(const std::filesystem::path& directory) {
  const OpenFile opened = open_at(AT_FDCWD, directory.string(), O_RDONLY | O_DIRECTORY);
  if (!opened.is_open()) throw_file_error("open", directory);
  // EINVAL: some file systems have nothing to do there.
  if (uninterrupted([&] { return fsync(opened.number()); }) == -1 && errno != EINVAL)
    throw_file_error("write", directory);
}

}  // namespace coconet::jit
