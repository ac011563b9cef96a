// What is stored under a key, and its bytes in a file: kernel_cache/README.md has the grammar.
#pragma once

#include <cstddef>
#include <cstdint>

#include "jit/cache/key.h"

namespace coconet::jit {

/// A compiled kernel, or an answer that takes long to find out.
struct CachedBinary {
  std::string payload;  ///< a shared object's or a cubin's bytes
  std::string log;      ///< what the compiler said
};

/// The version of the format, which file names end in: libraries with others share a directory.
inline constexpr std::uint32_t entry_format = 2;
/// Bytes of an entry whose key, log and payload are empty.
inline constexpr std::size_t least_entry_bytes = 8 + 4 + 32 + 3 * 8 + 16;
/// Bytes before the key text.
inline constexpr std::size_t entry_header_bytes = least_entry_bytes - 16;
/// Far above any kernel: what a reader allocates for a file that only claims to be one.
inline constexpr std::size_t most_entry_bytes = std::size_t{256} << 20;

[[nodiscard]] std::string encode_entry(const CacheKey& key, const CachedBinary& binary);

/// Parts of an entry's bytes.
struct EntryView {
  std::string_view digest;
  std::string_view key_text;
  std::string_view log;
  std::string_view payload;
};

/// Bytes of those parts that have no fixed length.
struct EntryLengths {
  std::size_t key = 0;
  std::size_t log = 0;
  std::size_t payload = 0;
};

/// Reads the header of an entry of `size` bytes. Returns what is wrong with it, or null.
[[nodiscard]] const char* decode_header(std::string_view start, std::size_t size,
                                        EntryLengths& into);

/// Finds the parts of an entry. Returns what is wrong with it, or null. No length is trusted.
/// Whether the key is the one looked for, and its digest right, is left to the caller.
[[nodiscard]] const char* decode_entry(std::string_view bytes, EntryView& into);

}  // namespace coconet::jit
