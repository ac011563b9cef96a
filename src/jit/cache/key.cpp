// Writing, reading and comparing keys.
#include "jit/cache/key.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <set>

#include "coconet/error.h"

namespace coconet::jit {
namespace {

bool is_tag(std::string_view text) {
  constexpr const char* allowed = "abcdefghijklmnopqrstuvwxyz0123456789_";
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

// Takes the first field off `text`; nothing when there is none.
std::optional<KeyField> take_field(std::string_view& text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos || !is_tag(text.substr(0, blank))) return std::nullopt;
  const std::string_view tag = text.substr(0, blank);
  text.remove_prefix(blank + 1);
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || text.size() - digits < 2 || length > text.size() - digits - 2)
    return std::nullopt;
  if (digits > 1 && text.front() == '0') return std::nullopt;  // one text for one key
  if (text[digits] != '\n' || text[digits + 1 + length] != '\n') return std::nullopt;
  const std::string_view value = text.substr(digits + 1, length);
  text.remove_prefix(digits + length + 2);
  return KeyField{tag, value};
}

}  // namespace

void CacheKey::add(std::string_view tag, std::string_view value) {
  if (!is_tag(tag)) {
    throw InternalError(fmt::format("The cache key tag '{}' is not made of a-z, 0-9 and _.", tag));
  }
  if (field_of(text_, tag))
    throw InternalError(fmt::format("The cache key has the tag '{}' twice.", tag));
  digest_.reset();
  fmt::format_to(std::back_inserter(text_), "{} {}\n{}\n", tag, value.size(), value);
}

std::vector<KeyField> fields_of(std::string_view key_text) {
  std::vector<KeyField> fields;
  std::set<std::string_view> tags;
  while (!key_text.empty()) {
    const std::optional<KeyField> field = take_field(key_text);
    if (!field || !tags.insert(field->tag).second) return {};
    fields.push_back(*field);
  }
  return fields;
}

std::optional<std::string_view> field_of(std::string_view key_text, std::string_view tag) {
  while (const std::optional<KeyField> field = take_field(key_text)) {
    if (field->tag == tag) return field->value;
  }
  return std::nullopt;
}

std::optional<KeyDifference> difference(std::string_view wanted, std::string_view found) {
  if (wanted == found) return std::nullopt;
  std::optional<KeyDifference> result;
  std::size_t equal = 0;
  for (const KeyField& field : fields_of(wanted)) {
    const std::optional<std::string_view> other = field_of(found, field.tag);
    if (other == field.value) {
      ++equal;
    } else if (!result) {
      result = KeyDifference{std::string(field.tag), std::string(field.value), {}, 0};
      if (other) result->found = std::string(*other);
    }
  }
  // All that is wanted is there, and more, or in another order.
  if (!result) result = KeyDifference{"order", {}, {}, 0};
  result->equal = equal;
  return result;
}

}  // namespace coconet::jit
