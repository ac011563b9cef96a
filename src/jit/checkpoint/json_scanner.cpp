// Tokens of JSON; see json_scanner.h.
#include "jit/checkpoint/json_scanner.h"

#include <fmt/format.h>

#include "jit/checkpoint/damage.h"

namespace coconet::jit {
namespace {

/// Bytes that follow the first one of a character, and the range of the second one of all; Unicode
/// 15, table 3-7.
struct Sequence {
  unsigned char first, last;    ///< leading bytes
  unsigned char least, most;    ///< of the second byte
  unsigned char continuations;  ///< bytes after the leading one
};
constexpr Sequence sequences[] = {
    {0x00, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
    {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2},
    {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3}};

/// Bytes of the character that `text` begins with; 0 where it is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (const Sequence& one : sequences) {
    if (byte(0) < one.first || byte(0) > one.last) continue;
    if (text.size() <= one.continuations) return 0;
    for (std::size_t i = 1; i <= one.continuations; ++i) {
      const unsigned char least = i == 1 ? one.least : 0x80, most = i == 1 ? one.most : 0xbf;
      if (byte(i) < least || byte(i) > most) return 0;
    }
    return one.continuations + 1U;
  }
  return 0;
}

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

void JsonScanner::fail(std::size_t byte, std::string_view what) const {
  throw Damage(file_, byte, what);
}

std::size_t JsonScanner::at() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  return at_;
}

bool JsonScanner::take(char token) {
  if (at() >= text_.size() || text_[at_] != token) return false;
  ++at_;
  return true;
}

void JsonScanner::expect(char token) {
  if (!take(token)) fail(at_, fmt::format("there must be a '{}'", token));
}

void JsonScanner::key(std::string_view name) {
  const std::size_t begin = at();
  const std::string found = string();
  if (found != name) fail(begin, fmt::format("there must be the member '{}'", name));
  expect(':');
}

std::string JsonScanner::string() {
  expect('"');
  const std::size_t begin = at_;
  std::string text;
  while (at_ < text_.size() && text_[at_] != '"') {
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) fail(at_, "a string has a control character");
    if (c != '\\') {
      text += c;
      ++at_;
      continue;
    }
    const std::string_view escape = text_.substr(at_, 6);
    const char next = escape.size() > 1 ? escape[1] : '\0';
    if (next == '"' || next == '\\') {
      text += next;
      at_ += 2;
    } else if (escape.size() == 6 && escape.starts_with("\\u00") && hexadecimal(escape[4]) >= 0 &&
               hexadecimal(escape[4]) < 2 && hexadecimal(escape[5]) >= 0) {
      text += static_cast<char>(16 * hexadecimal(escape[4]) + hexadecimal(escape[5]));
      at_ += 6;
    } else {
      fail(at_, "a string has an escape that is none of checkpoints");
    }
  }
  const std::string_view raw = text_.substr(begin, at_ - begin);
  if (at_ == text_.size()) fail(at_, "a string does not end");
  if (const std::size_t wrong = first_invalid_utf8(raw); wrong != std::string_view::npos)
    fail(begin + wrong, "a string is not UTF-8");
  ++at_;
  return text;
}

std::uint64_t JsonScanner::number(std::uint64_t most) {
  const std::size_t begin = at();
  std::uint64_t value = 0;
  for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
    if (digit > most || value > (most - digit) / 10)
      fail(begin, fmt::format("a number is above {}", most));
    value = 10 * value + digit;
  }
  if (at_ == begin) fail(begin, "there must be a whole number");
  if (text_[begin] == '0' && at_ > begin + 1) fail(begin, "a number begins with 0");
  return value;
}

}  // namespace coconet::jit
