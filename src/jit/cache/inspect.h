// Administration of a cache directory: reads, checks and removes, and marks nothing as used.
#pragma once

#include <span>

#include "jit/cache/evict.h"

namespace coconet::jit {

/// How much of an entry is read.
enum class InspectDepth : std::uint8_t {
  key,  ///< header and key text, which the file's name vouches for
  all   ///< the payload too, and so the checksum
};

/// What was found in a file that is named as an entry.
struct InspectedEntry {
  EntryFile file;
  std::string problem;   ///< why it would not be used: a sentence about "it"; empty: nothing found
  bool foreign = false;  ///< of another format version, so that nothing is known of it
  std::string key_text;  ///< when there is no problem and it is not foreign
};

/// Inspects `file`, whose folder is open. Nothing when it has vanished.
[[nodiscard]] std::optional<InspectedEntry> inspect(const CacheDirectory& directory, int folder,
                                                    const EntryFile& file, InspectDepth depth);
/// Inspects the file of `key`. Nothing when it does not exist.
[[nodiscard]] std::optional<InspectedEntry> inspect(const CacheDirectory& directory,
                                                    const CacheKey& key, InspectDepth depth);

/// Calls `visit` with every entry, in any order. Throws std::system_error.
void inspect_all(const CacheDirectory& directory, InspectDepth depth,
                 const std::function<void(const InspectedEntry& entry)>& visit);

/// The folders of entries that no reader goes into, each as a path and a sentence about "it".
[[nodiscard]] std::vector<std::pair<std::filesystem::path, std::string>> unusable_folders(
    const CacheDirectory& directory);

/// When an entry was last asked for; nothing when it never was since it was written.
[[nodiscard]] std::optional<FileTime> last_use(const struct stat& status);

/// The entry that is most like one that is not there.
struct Nearest {
  std::filesystem::path path;
  std::string digits;  ///< of its digest
  std::string key_text;
  KeyDifference difference;
  std::size_t prefix = 0;  ///< fields before the first that differs
  FileTime time;           ///< that it counts as used at
};

/// For each of `wanted`, the entry with the most fields that are equal; of those the one whose
/// first difference comes last, and then the one used last. The first field is equal: an entry of
/// another kind says nothing.
[[nodiscard]] std::vector<std::optional<Nearest>> find_nearest(
    std::span<const std::shared_ptr<const CacheDirectory>> directories,
    std::span<const CacheKey> wanted);

/// What a `clear` did.
struct Cleared {
  Totals removed;
  std::uint64_t temporaries = 0;
  std::uint64_t refused = 0;  ///< that the file system did not let go
};

/// Removes every entry and temporary file, also those of writers at work. Links are removed, not
/// followed; other files stay. Throws std::system_error when the directory cannot be listed.
[[nodiscard]] Cleared clear(const CacheDirectory& directory);

}  // namespace coconet::jit
