// The on-disk kernel cache: a directory of checksummed entries addressed by the SHA-256 of a key. A leaf: it sees
// keys and bytes, never programs, devices or ranks. The entry's grammar is in kernel_cache/README.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace coconet::jit {

/// Everything that a compiled kernel depends on, as tagged fields. Two keys are equal when their texts are.
class CacheKey {
 public:
  /// Appends a field. `tag` is of a-z, 0-9 and _ and new in this key, else InternalError; `value` is any bytes.
  /// The order of calls is part of the key.
  void add(std::string_view tag, std::string_view value);
  /// All fields, each as tag, length and value: what is hashed, and stored in the entry.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// SHA-256 of the text, 64 hex digits.
  [[nodiscard]] std::string digest() const;

 private:
  std::string text_;
};

enum class CacheMode : std::uint8_t { read_write, read_only, off };

/// A cache directory; an empty path is no cache. Every failure to read or write it is survived, with one warning
/// for each object. Threads may share an object.
class DiskCache {
 public:
  DiskCache(std::filesystem::path directory, CacheMode mode);

  /// The payload stored under `key`; nothing when there is none or the entry is damaged (warned, and deleted
  /// when the mode allows).
  [[nodiscard]] std::optional<std::string> get(const CacheKey& key);
  /// Stores `payload`: written to a temporary file, synced, renamed. Readers see all of it or nothing.
  void put(const CacheKey& key, std::string_view payload);
  /// Where the entry of `key` is or would be.
  [[nodiscard]] std::filesystem::path path_of(const CacheKey& key) const;
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

 private:
  void warn_once(const std::string& message);

  std::filesystem::path directory_;
  std::atomic<CacheMode> mode_;  ///< becomes read_only when the file system refuses to be written
  std::atomic<bool> warned_ = false;
};

/// SHA-256 of `bytes`, 64 hex digits.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace coconet::jit
