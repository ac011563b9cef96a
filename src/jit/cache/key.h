// What a binary is found by: everything that it depends on. kernel_cache/README.md has the grammar.
#pragma once

#include <optional>
#include <vector>

#include "jit/cache/digest.h"

namespace coconet::jit {

/// Tagged fields, as text. Two keys are equal when their texts are.
class CacheKey {
 public:
  /// Appends a field, any bytes. `tag` is of a-z, 0-9 and _, and new in this key, else
  /// InternalError.
  void add(std::string_view tag, std::string_view value);
  /// All fields, each as tag, length and value: what is hashed, and stored in the entry.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// SHA-256 of the text, computed at the first call after `add`: threads share a key from then on.
  [[nodiscard]] const Digest& digest() const {
    if (!digest_) digest_ = sha256(text_);
    return *digest_;
  }

 private:
  std::string text_;
  mutable std::optional<Digest> digest_;
};

struct KeyField {
  std::string_view tag;
  std::string_view value;
  bool operator==(const KeyField&) const = default;
};

/// The fields of a key's text, in order; none when it is not a key's text.
[[nodiscard]] std::vector<KeyField> fields_of(std::string_view key_text);

/// The value of the field `tag`; none when the key has no such field.
[[nodiscard]] std::optional<std::string_view> field_of(std::string_view key_text,
                                                       std::string_view tag);

/// How a key differs from another.
struct KeyDifference {
  std::string tag;                   ///< of the first field of the one that the other has otherwise
  std::string wanted;                ///< its value
  std::optional<std::string> found;  ///< the other's; none when it has no such field
  std::size_t equal = 0;             ///< fields that are the same in both
};

/// Where `found` differs from `wanted`, both keys' texts; nothing when they are the same.
[[nodiscard]] std::optional<KeyDifference> difference(std::string_view wanted,
                                                      std::string_view found);

}  // namespace coconet::jit
