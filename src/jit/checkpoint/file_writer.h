// Writing a file of a checkpoint: in whole blocks, each with its checksum, at the disk's speed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "jit/cache/file.h"
#include "jit/checkpoint/manifest.h"

namespace coconet::jit {

/// A new file. Every member throws CheckpointError naming the file and what the system says.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);

  /// Appends `bytes`, which may change at once.
  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  /// Writes what is left, and returns when the file is on the disk. `bytes` and `checksums` of the
  /// result are set.
  [[nodiscard]] SavedFile finish();

 private:
  /// The next block of the file, shorter than others only at its end.
  void write_block(std::span<const std::byte> block);

  std::filesystem::path path_;
  OpenFile file_;
  std::vector<std::byte> pending_;  ///< less than a block
  SavedFile saved_;
};

/// Writes all of `text` into a new file and returns when it is on the disk.
void write_saved_text(const std::filesystem::path& path, std::string_view text);
/// Returns when the names in `directory` are on the disk.
void sync_directory(const std::filesystem::path& directory);

}  // namespace coconet::jit
