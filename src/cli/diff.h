// A line diff of two texts, for showing what a transformation changed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coconet::cli {

struct DiffLine {
  char mark = ' ';  ///< ' ' in both texts, '-' in the old one only, '+' in the new one only
  std::string text;
};

/// The parts of `text` between separators; none behind one at its end.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// A short edit from `before` to `after`, line by line; removed lines come before added ones. It is
/// found in the time that sorting takes where most lines are there once, as a program's are.
/// Lines that differ in their blanks only, as columns do that were aligned anew, are the same,
/// shown as in `after`.
[[nodiscard]] std::vector<DiffLine> diff_lines(std::string_view before, std::string_view after);

}  // namespace coconet::cli
