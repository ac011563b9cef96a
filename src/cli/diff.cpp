// A line diff by longest common subsequence; see diff.h.
#include "cli/diff.h"

#include <algorithm>
#include <cstddef>

namespace coconet::cli {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

/// `line` with every run of blanks as one.
std::string words_of(std::string_view line) {
  std::string words;
  for (const char c : line) {
    if (c != ' ' || (!words.empty() && words.back() != ' ')) words += c;
  }
  return words;
}

std::vector<std::string> words_of(const std::vector<std::string_view>& lines) {
  std::vector<std::string> words;
  for (const std::string_view line : lines) words.push_back(words_of(line));
  return words;
}

}  // namespace

std::vector<DiffLine> diff_lines(std::string_view before, std::string_view after) {
  const auto old_lines = lines_of(before);
  const auto new_lines = lines_of(after);
  const auto a = words_of(old_lines);
  const auto b = words_of(new_lines);
  // common[i][j]: length of the longest common subsequence of a[i..] and b[j..].
  std::vector<std::vector<std::size_t>> common(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<DiffLine> diff;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      diff.push_back({' ', std::string(new_lines[j++])});
      ++i;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      diff.push_back({'-', std::string(old_lines[i++])});
    } else {
      diff.push_back({'+', std::string(new_lines[j++])});
    }
  }
  return diff;
}

}  // namespace coconet::cli
