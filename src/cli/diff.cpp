// A line diff: lines that are there once in both texts hold it together, and longest common
// subsequences do between them; see diff.h.
#include "cli/diff.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>

namespace coconet::cli {
namespace {

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

/// Lines of both texts that are the same: by index, in order.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

/// Those that are there once in both texts, as many as keep their order (the longest increasing
/// subsequence, by patience sorting).
Pairs anchors(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  struct Places {
    std::size_t in_a = 0, in_b = 0;
    int count_a = 0, count_b = 0;
  };
  std::unordered_map<std::string_view, Places> places;
  for (std::size_t i = 0; i < a.size(); ++i) {
    Places& of = places[a[i]];
    of.in_a = i;
    ++of.count_a;
  }
  for (std::size_t j = 0; j < b.size(); ++j) {
    Places& of = places[b[j]];
    of.in_b = j;
    ++of.count_b;
  }
  Pairs candidates;
  for (const auto& [line, of] : places) {
    if (of.count_a == 1 && of.count_b == 1) candidates.emplace_back(of.in_a, of.in_b);
  }
  std::ranges::sort(candidates);
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> ends;  // by length: the candidate with which such a sequence ends first
  std::vector<std::size_t> before(candidates.size(), none);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const auto place = std::ranges::lower_bound(
        ends, candidates[c].second, {}, [&](std::size_t end) { return candidates[end].second; });
    if (place != ends.begin()) before[c] = *(place - 1);
    place == ends.end() ? ends.push_back(c) : void(*place = c);
  }
  Pairs found;
  for (std::size_t c = ends.empty() ? none : ends.back(); c != none; c = before[c])
    found.push_back(candidates[c]);
  std::ranges::reverse(found);
  return found;
}

/// A longest common subsequence of `a` and `b`, by the table of its lengths; none where that would
/// take more than a few megabytes, of texts that have next to nothing in common.
Pairs common(std::span<const std::string> a, std::span<const std::string> b) {
  constexpr std::size_t most_cells = std::size_t{1} << 22;
  if (a.size() * b.size() > most_cells) return {};
  // lengths[i][j]: of a[i..] and b[j..].
  std::vector<std::vector<std::uint32_t>> lengths(a.size() + 1,
                                                  std::vector<std::uint32_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      lengths[i][j] =
          a[i] == b[j] ? lengths[i + 1][j + 1] + 1 : std::max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  Pairs found;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      found.emplace_back(i++, j++);
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return found;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(separator));
    parts.push_back(part);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return parts;
}

std::vector<DiffLine> diff_lines(std::string_view before, std::string_view after) {
  const auto old_lines = split(before, '\n');
  const auto new_lines = split(after, '\n');
  const auto a = words_of(old_lines);
  const auto b = words_of(new_lines);
  std::vector<DiffLine> diff;
  std::size_t i = 0, j = 0;
  const auto change_up_to = [&](std::size_t old_end, std::size_t new_end) {
    while (i < old_end) diff.push_back({'-', std::string(old_lines[i++])});
    while (j < new_end) diff.push_back({'+', std::string(new_lines[j++])});
  };
  const auto diff_up_to = [&](std::size_t old_end, std::size_t new_end) {
    const std::size_t first_old = i, first_new = j;
    for (const auto& [same_old, same_new] :
         common(std::span(a).subspan(i, old_end - i), std::span(b).subspan(j, new_end - j))) {
      change_up_to(first_old + same_old, first_new + same_new);
      diff.push_back({' ', std::string(new_lines[j++])});
      ++i;
    }
    change_up_to(old_end, new_end);
  };
  for (const auto& [old_anchor, new_anchor] : anchors(a, b)) {
    diff_up_to(old_anchor, new_anchor);
    diff.push_back({' ', std::string(new_lines[j++])});
    ++i;
  }
  diff_up_to(a.size(), b.size());
  return diff;
}

}  // namespace coconet::cli
