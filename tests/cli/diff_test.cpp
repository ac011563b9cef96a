// The line diff that `coconet explain` prints.
#include "cli/diff.h"

#include <catch2/catch.hpp>

namespace {

std::string marked(std::string_view before, std::string_view after) {
  std::string text;
  for (const auto& line : coconet::cli::diff_lines(before, after))
    text += line.mark + line.text + "\n";
  return text;
}

}  // namespace

TEST_CASE("equal texts differ in no line") {
  CHECK(marked("a\nb\n", "a\nb\n") == " a\n b\n");
  CHECK(marked("", "").empty());
}

TEST_CASE("a changed line is removed, then added, between the lines that stay") {
  CHECK(marked("a\nb\nc\n", "a\nx\nc\n") == " a\n-b\n+x\n c\n");
}

TEST_CASE("lines at either end are found") {
  CHECK(marked("b\n", "a\nb\nc\n") == "+a\n b\n+c\n");
  CHECK(marked("a\nb\nc\n", "b\n") == "-a\n b\n-c\n");
  CHECK(marked("", "a\n") == "+a\n");
}

TEST_CASE("a line whose columns were aligned anew is unchanged, and shown as it is now") {
  CHECK(marked("g f32\n", "g    f32\nlong f32\n") == " g    f32\n+long f32\n");
}

TEST_CASE("lines that are there several times are found between those that are there once") {
  CHECK(marked("x\na\nx\nb\n", "x\nx\na\nx\nc\nb\n") == " x\n+x\n a\n x\n+c\n b\n");
  CHECK(marked("a\nb\nc\n", "c\na\nb\n") == "+c\n a\n b\n-c\n");
}

TEST_CASE("texts of many lines are compared without a table of all pairs") {
  std::string before, after;  // a table would have 10^10 cells
  for (int line = 0; line < 100'000; ++line) {
    before += std::to_string(line) + "\n";
    after += (line == 50'000 ? "new" : std::to_string(line)) + "\n";
  }
  const auto diff = coconet::cli::diff_lines(before, after);
  REQUIRE(diff.size() == 100'001);
  CHECK(diff[50'000].mark == '-');
  CHECK(diff[50'001].mark == '+');
  CHECK(diff[50'002].mark == ' ');
}
