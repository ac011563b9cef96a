// Reading ranges of a file of a checkpoint: block by block, each compared with its checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "jit/cache/file.h"
#include "jit/checkpoint/manifest.h"

namespace coconet::jit {

/// Throws Damage where the file is missing, or has another length or other bytes than were saved;
/// CheckpointError where it cannot be read, which says nothing of its content.
class FileReader {
 public:
  /// `file` of the checkpoint in `directory`; must outlive it.
  FileReader(const std::filesystem::path& directory, const SavedFile& file);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Copies `bytes` from `offset` on, which the file has, to `to`.
  void read(std::uint64_t offset, std::size_t bytes, std::byte* to);

 private:
  /// Reads block `index` to `to`, and compares.
  void read_block(std::uint64_t index, std::byte* to);
  [[nodiscard]] std::size_t bytes_of(std::uint64_t index) const;

  static constexpr std::uint64_t none = ~std::uint64_t{0};

  std::filesystem::path path_;
  const SavedFile& saved_;
  OpenFile file_;
  std::vector<std::byte> block_;
  std::uint64_t index_ = none;  ///< of the block in `block_`
};

/// All of a file of text, at most 1 GiB. Throws as FileReader does.
[[nodiscard]] std::string read_saved_text(const std::filesystem::path& path);

}  // namespace coconet::jit
