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
