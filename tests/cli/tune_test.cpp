// `coconet tune` from outside: what it prints and writes.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/command.h"
#include "coconet/schedule.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using coconet::test::coconet_command;
using coconet::test::Said;

TEST_CASE("every size has a row, and the schedule of the last one is written") {
  const auto file = std::filesystem::temp_directory_path() / (std::to_string(getpid()) + ".json");
  const Said said = coconet_command("tune sgd --sizes 64,128 --out " + file.string());
  INFO(said.err);
  CHECK(said.code == 0);
  CHECK_THAT(said.out, StartsWith("size ") && Contains("\nn=64 ") && Contains("\nn=128 ") &&
                           Contains("\n  A: ") && Contains(" candidates; ") &&
                           !Contains("interrupted"));
  CHECK(coconet::Schedule::load(file).name() == "sgd-tuned");
  const Said run = coconet_command("run sgd --set n=128 --check --schedule " + file.string());
  INFO(run.err);
  CHECK(run.code == 0);
  std::filesystem::remove(file);
}

TEST_CASE("what cannot be tuned is said before anything is measured") {
  CHECK_THAT(coconet_command("tune sgd --sizes 64 --cluster dgx9").err,
             Contains("did you mean 'dgx2'?"));
  CHECK_THAT(coconet_command("tune sgd --sizes k=64").err,
             Contains("there is no dimension 'k'; the dimensions of sgd are n."));
  CHECK_THAT(coconet_command("tune sgd --sizes 64 --out /no/such/folder/best.json").err,
             Contains("Cannot write the file '/no/such/folder/best.json' of --out"));
}
