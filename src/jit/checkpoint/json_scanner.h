// The JSON of a manifest, read token by token: what is not the expected one is an error that says
// at which byte. Members come in the order in which they were written, so that there are no
// duplicates, no unknown ones, and nothing is kept that was not asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace coconet::jit {

class JsonScanner {
 public:
  /// `text`, the beginning of `file`, must outlive it.
  JsonScanner(std::string_view text, std::filesystem::path file)
      : text_(text), file_(std::move(file)) {}

  /// Where the next token begins.
  [[nodiscard]] std::size_t at();
  /// Throws Damage at `byte`.
  [[noreturn]] void fail(std::size_t byte, std::string_view what) const;

  /// Passes `token`. Throws Damage where it is not next, as all below do.
  void expect(char token);
  /// Passes `token` if it is next.
  [[nodiscard]] bool take(char token);
  /// Passes `"name":`.
  void key(std::string_view name);
  /// Valid UTF-8.
  [[nodiscard]] std::string string();
  /// A whole number from 0 to `most`.
  [[nodiscard]] std::uint64_t number(std::uint64_t most);
  /// Calls element() for each element of an array.
  template <class Element>
  void array(Element element) {
    list('[', ']', element);
  }
  /// Calls member() for each member of an object, of which it reads the key, too.
  template <class Member>
  void object(Member member) {
    list('{', '}', member);
  }

 private:
  template <class Element>
  void list(char open, char close, Element element) {
    expect(open);
    if (take(close)) return;
    do element();
    while (take(','));
    expect(close);
  }

  std::string_view text_;
  std::filesystem::path file_;
  std::size_t at_ = 0;
};

/// The first byte of `text` that is not part of valid UTF-8, or npos.
[[nodiscard]] std::size_t first_invalid_utf8(std::string_view text);
/// `text`, valid UTF-8, as JSON writes it: with quotes and escapes.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace coconet::jit
