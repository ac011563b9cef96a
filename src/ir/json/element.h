// A place in a parsed JSON document, of a program or a schedule: typed access whose errors name the
// place by its JSON pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coconet::ir {

/// A place in a document. A handle: the document lives as long as one of its elements.
class JsonElement {
 public:
  struct Document;
  JsonElement(std::shared_ptr<const Document> document, const void* json, std::string pointer)
      : document_(std::move(document)), json_(json), pointer_(std::move(pointer)) {}

  /// Throws ProgramError: "program JSON at /values/3/op: <message>".
  [[noreturn]] void fail(const std::string& message) const;

  /// Checks that this is an object and that all its keys are among `keys`.
  void require_object(const std::vector<std::string_view>& keys) const;
  /// Checks that the member `key` of this object is the version that this library reads. It comes
  /// before `require_object`, which would report the keys of another version as unknown.
  void require_version(std::string_view key, int version) const;
  /// The member of an object; nothing when it is absent.
  [[nodiscard]] std::optional<JsonElement> find(std::string_view key) const;
  /// The member of an object that must be there.
  [[nodiscard]] JsonElement at(std::string_view key) const;
  /// The elements of an array.
  [[nodiscard]] std::vector<JsonElement> elements() const;
  /// The members of an object, in alphabetical order.
  [[nodiscard]] std::vector<std::pair<std::string, JsonElement>> members() const;

  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_number() const;
  [[nodiscard]] bool is_object() const;

  [[nodiscard]] std::string string() const;
  /// A string that is not empty.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool boolean() const;
  /// A whole number of at least `least`.
  [[nodiscard]] std::int64_t integer(std::int64_t least) const;
  [[nodiscard]] int small_integer(int least) const;
  /// A whole number from 0 to 2^64 - 1.
  [[nodiscard]] std::uint64_t unsigned_integer() const;

  /// Fails because the value is none of what `it_must_be` says.
  [[noreturn]] void wrong_type(std::string_view it_must_be) const;
  /// Fails with "unknown <what> '<name>'", and the nearest known one or all of them.
  [[noreturn]] void unknown(std::string_view what, std::string_view name,
                            const std::vector<std::string>& known) const;
  /// The one of `values` whose `to_string` is `name`; fails as `unknown` where there is none.
  template <class Values>
  auto one_of(std::string_view what, std::string_view name, const Values& values) const {
    std::vector<std::string> known;
    for (const auto& value : values) {
      if (to_string(value) == name) return value;
      known.emplace_back(to_string(value));
    }
    unknown(what, name, known);
  }

 private:
  std::shared_ptr<const Document> document_;
  const void*
      json_;  ///< the place in the document, in the JSON library's type, which no header names
  std::string pointer_;
};

/// Arrays and objects in one another that are read: many times what any document of this library
/// has.
inline constexpr std::size_t deepest_json = 64;

/// The root of the parsed text, which errors call `what`. Throws ProgramError with line and column
/// of a syntax error and of bytes that are not UTF-8, and with the place of a key that its object
/// has already, of a number that no double holds, and of what is nested deeper than `deepest_json`.
[[nodiscard]] JsonElement parse_json(std::string_view text, const std::string& what);

}  // namespace coconet::ir
