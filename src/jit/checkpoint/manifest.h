// The manifest of a checkpoint, the file checkpoint.json: which states it has, and where each part
// of them lies in which file. docs/checkpoints.md says what is in it byte by byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/dtype.h"
#include "ir/extents.h"

namespace coconet::jit {

inline constexpr std::string_view manifest_name = "checkpoint.json";
/// The largest number that a checkpoint may have in its directory.
inline constexpr std::uint64_t most_sequence = std::uint64_t{1} << 60;
/// Bytes of a file that have one checksum.
inline constexpr std::size_t block_bytes = std::size_t{1} << 20;

/// A file with parts of tensors.
struct SavedFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t data = 0;                ///< where the elements begin
  std::vector<std::uint64_t> checksums;  ///< XXH3 of each block
};

/// A part of a tensor, row-major.
struct SavedPart {
  std::size_t file = 0;      ///< index in Manifest::files
  std::int64_t copy = 0;     ///< of a local tensor
  ir::Part box;              ///< in the whole tensor
  std::uint64_t offset = 0;  ///< in the file, bytes
};

struct SavedTensor {
  std::string name;
  DType dtype = DType::f32;
  ir::Extents shape;        ///< of the whole
  std::string layout;       ///< of the executable that saved it, for people
  std::int64_t copies = 1;  ///< of a local tensor: different ones
  std::vector<SavedPart> parts;
};

struct Manifest {
  std::uint64_t sequence = 0;  ///< counts the checkpoints of a directory
  std::string program;
  int ranks = 1;
  std::map<std::string, std::string> metadata;
  std::vector<SavedFile> files;
  std::vector<SavedTensor> tensors;

  /// The tensor called `name`, or null.
  [[nodiscard]] const SavedTensor* find(std::string_view name) const;
};

/// The file of `rank`.
[[nodiscard]] std::string file_of_rank(int rank);

/// The bytes of checkpoint.json.
[[nodiscard]] std::string text_of(const Manifest& manifest);
/// The inverse. Throws Damage, which calls the text `file`, unless it is the whole of a manifest
/// whose parts have each element of every tensor, and each byte of every file, exactly once.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::filesystem::path& file);

}  // namespace coconet::jit
