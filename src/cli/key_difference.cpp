// Finds the lines and words that differ, and cuts them to a readable length; see key_difference.h.
#include "cli/key_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "cli/diff.h"

namespace coconet::cli {
namespace {

constexpr std::size_t longest = 100;  // of a value that is printed
constexpr std::size_t before = 30;    // of what two long values have in common
constexpr std::size_t most_words = 12;

/// `line` from some characters before `difference` on.
std::string shortened(std::string_view line, std::size_t difference) {
  std::string text;
  if (line.size() > longest && difference > before) {
    text = "...";
    line.remove_prefix(std::min(difference - before, line.size() - before));
  }
  const bool cut = line.size() > longest;
  for (const char c : line.substr(0, longest))
    text += static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 127 ? '?' : c;
  return cut ? text + "..." : text;
}

std::vector<std::string> compared(const std::string& where, std::string_view wanted,
                                  std::string_view found) {
  const auto common_end = std::ranges::mismatch(wanted, found).in1;
  const auto start = static_cast<std::size_t>(common_end - wanted.begin());
  return {where + "wanted: " + shortened(wanted, start),
          where + "found:  " + shortened(found, start)};
}

std::vector<std::string> compare_lines(std::string_view wanted, std::string_view found) {
  const std::vector<std::string_view> ours = split(wanted, '\n');
  const std::vector<std::string_view> theirs = split(found, '\n');
  const std::size_t shorter = std::min(ours.size(), theirs.size());
  std::size_t same = 0;
  while (same < shorter && ours[same] == theirs[same]) ++same;
  std::size_t tail = 0;
  while (tail < shorter - same &&
         ours[ours.size() - 1 - tail] == theirs[theirs.size() - 1 - tail]) {
    ++tail;
  }
  const std::string where = fmt::format("line {}, ", same + 1);
  const bool missing = same == theirs.size() - tail;
  const bool extra = same == ours.size() - tail;
  if (missing && extra) return {"the same lines, with another end"};
  if (missing)
    return {where + "wanted: " + shortened(ours[same], 0), where + "found:  no such line"};
  if (extra)
    return {where + "wanted: no such line", where + "found:  " + shortened(theirs[same], 0)};
  return compared(where, ours[same], theirs[same]);
}

std::string only_in(std::string_view one, std::string_view other) {
  const std::vector<std::string_view> words = split(other, ' ');
  const std::set<std::string_view> known(words.begin(), words.end());
  std::string text;
  std::size_t count = 0;
  for (const std::string_view word : split(one, ' ')) {
    if (known.contains(word) || ++count > most_words) continue;
    text += (text.empty() ? "" : " ") + std::string(word);
  }
  if (count > most_words) text += fmt::format(" and {} more", count - most_words);
  return text.empty() ? "nothing" : text;
}

/// A processor's model, and behind a line break its features.
std::vector<std::string> compare_processors(std::string_view wanted, std::string_view found) {
  const auto model = [](std::string_view arch) { return arch.substr(0, arch.find('\n')); };
  const auto features = [&](std::string_view arch) {
    return arch.substr(std::min(arch.size(), model(arch).size() + 1));
  };
  std::vector<std::string> lines;
  if (model(wanted) != model(found)) lines = compared("", model(wanted), model(found));
  if (features(wanted) != features(found)) {
    lines.push_back("features only wanted: " + only_in(features(wanted), features(found)));
    lines.push_back("features only found:  " + only_in(features(found), features(wanted)));
  }
  return lines;
}

}  // namespace

std::vector<std::string> describe(const jit::KeyDifference& difference) {
  const std::string& wanted = difference.wanted;
  if (difference.tag == "order" && wanted.empty())
    return {"the entry's key has the same fields in another order, or more of them"};
  if (!difference.found) return {"wanted: " + shortened(wanted, 0), "found:  no such field"};
  const std::string& found = *difference.found;
  if (wanted.find('\n') == std::string::npos && found.find('\n') == std::string::npos)
    return compared("", wanted, found);
  if (difference.tag == "arch") return compare_processors(wanted, found);
  return compare_lines(wanted, found);
}

std::vector<std::string> further_differences(std::string_view wanted, std::string_view found,
                                             std::string_view first) {
  std::vector<std::string> tags;
  for (const jit::KeyField& field : jit::fields_of(wanted)) {
    if (field.tag != first && jit::field_of(found, field.tag) != field.value)
      tags.emplace_back(field.tag);
  }
  return tags;
}

}  // namespace coconet::cli
