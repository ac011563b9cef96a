// `coconet sim` from outside: its tables, and what it says of what it cannot predict.
#include <catch2/catch.hpp>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using namespace coconet::test;

namespace {

std::string refused(const std::string& arguments) {
  const Said said = coconet_command("sim " + arguments);
  INFO(said.out);
  CHECK(said.code != 0);
  CHECK(said.out.empty());
  return said.err;
}

/// The words of line `index` of `text`.
std::vector<std::string> words(const std::string& text, int index) {
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i <= index; ++i) std::getline(lines, line);
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

TEST_CASE(
    "every shipped schedule has a column, every size a row, and the best is none of the worst") {
  const std::string said = printed("sim adam --cluster dgx2 --sizes 2^10..2^12");
  CHECK_THAT(said, StartsWith("adam on dgx2, 16 ranks: milliseconds, predicted\n"));
  CHECK(words(said, 1) ==
        std::vector<std::string>{"n", "adam-unfused", "adam-sliced", "adam-fused", "best"});
  for (int row = 0; row < 3; ++row) {
    const std::vector<std::string> cells = words(said, 2 + row);
    REQUIRE(cells.size() == 6);
    CHECK(cells[0] == std::to_string(1024 << row));
    for (int column = 1; column <= 3; ++column)
      CHECK(std::stod(cells[4]) <= std::stod(cells[static_cast<std::size_t>(column)]));
  }
  CHECK_THAT(said, Contains("best is the quickest of") && Contains("\n  A: split op=avg;"));
}

TEST_CASE("one schedule shows its steps, their exchange and what binds them") {
  CHECK_THAT(printed("sim adam --cluster dgx-h100 --schedule unfused --set n=2^28"),
             Contains("nvls, simple") && Contains("links\n") && Contains("memory\n") &&
                 Contains("\nwhole step"));
}

TEST_CASE("a schedule that cannot run there is marked, with the reason") {
  const std::string said = printed("sim adam --cluster dgx2-x2 --sizes 2^20");
  CHECK(words(said, 2)[3] == "-");
  CHECK_THAT(said, Contains("adam-fused cannot run there: kernel 'adam_fused' exchanges data "
                            "among 32 ranks of 2 nodes"));
  CHECK_THAT(coconet_command("sim adam --cluster dgx2-x2 --nodes 2").out,
             Contains("adam-hierarchical"));
}

TEST_CASE("wrong sizes and clusters are refused") {
  CHECK_THAT(refused("adam --cluster dgx9"), Contains("did you mean 'dgx2'?"));
  CHECK_THAT(refused("adam"), Contains("--cluster"));
  CHECK_THAT(refused("adam --cluster dgx2 --sizes 8..4"),
             Contains("--sizes takes [NAME=]FROM..TO or [NAME=]SIZE,SIZE"));
  CHECK_THAT(refused("adam --cluster dgx2 --sizes k=4"),
             Contains("there is no dimension 'k'; the dimensions of adam are n."));
  CHECK_THAT(refused("mlp_block --cluster dgx2 --sizes 4..8"), Contains("name a dimension"));
  CHECK_THAT(refused("adam --cluster dgx2 --sizes 4 --sizes 8"), Contains("twice"));
}
