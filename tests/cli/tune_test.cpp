// `coconet tune` and `coconet calibrate` from outside: what they print, write and keep.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "child_process.h"
#include "cli/command.h"
#include "coconet/schedule.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using namespace coconet::test;

namespace {

/// The command, with a tuning file of its own.
ChildOutput command_with(const std::filesystem::path& tuning, const std::string& arguments) {
  ChildOutput said = run_command(arguments, "COCONET_TUNE_FILE=" + tuning.string());
  INFO(arguments + "\n" + said.text);
  CHECK(said.code == 0);
  return said;
}

}  // namespace

TEST_CASE("every size has a row, and the schedule of the last one is written, with reasons") {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "best.json", tuning = scratch.path() / "tuning.json";
  const ChildOutput said =
      command_with(tuning, "tune sgd --sizes 64,128 --cluster host-2rank --out " + file.string() +
                               " --report " + (scratch.path() / "page.html").string() + " --json " +
                               (scratch.path() / "all.json").string());
  CHECK_THAT(said.text, StartsWith("size ") && Contains("\nn=64 ") && Contains("\nn=128 ") &&
                            Contains("\n  A: ") && Contains(" candidates; ") &&
                            !Contains("interrupted") && !Contains("measured the machine"));
  const coconet::Schedule best = coconet::Schedule::load(file);
  CHECK(best.name() == "sgd-tuned");
  if (best.size() > 0) CHECK_THAT(read_file(file), Contains("\"why\": \"predicted: "));
  (void)command_with(tuning, "run sgd --set n=128 --check --schedule " + file.string());

  const auto all = nlohmann::json::parse(read_file(scratch.path() / "all.json"));
  REQUIRE(all["sizes"].size() == 2);
  CHECK(all["sizes"][0]["trials"].size() > 1);
  CHECK(all["sizes"][0]["trials"][0]["schedule"] == "no steps");

  const std::string page = read_file(scratch.path() / "page.html");
  CHECK_THAT(page, StartsWith("<!doctype html>") && Contains("<h2>Time against size</h2>") &&
                       Contains("split op=avg") && Contains("<svg class='chart'") &&
                       !Contains("<script") && !Contains("src=") && !Contains("<link"));
}

TEST_CASE("what was tuned is kept, and runs without a schedule find it") {
  const ScratchDirectory scratch;
  const auto tuning = scratch.path() / "tuning.json";
  CHECK_THAT(command_with(tuning, "run sgd --set n=100 --schedule auto").text,
             Contains("the automatic schedule is 'sgd-fused': it ships, and nothing was measured"));
  CHECK_THAT(command_with(tuning, "tune sgd --sizes 100").text,
             Contains("of these measured the machine"));
  auto quiet = nlohmann::json::parse(read_file(tuning));
  quiet["machines"][0]["measured"]["preempted"] = 0;  // whatever else ran here meanwhile
  write_file(tuning, quiet.dump());
  CHECK_THAT(command_with(tuning, "tune sgd --sizes 4096").text,
             !Contains("of these measured the machine"));
  const auto kept = nlohmann::json::parse(read_file(tuning));
  CHECK(kept["coconet_tuning"] == 1);
  CHECK(kept["machines"].size() == 1);
  REQUIRE(kept["programs"].size() == 1);
  CHECK(kept["programs"][0]["choices"].size() == 2);
  auto uncertain = kept;
  for (auto& choice : uncertain["programs"][0]["choices"]) choice["doubt"] = "of a reason";
  write_file(tuning, uncertain.dump());
  CHECK_THAT(command_with(tuning, "run sgd --set n=150 --schedule auto --check").text,
             Contains("the automatic schedule is 'sgd-tuned': it took ") &&
                 Contains(" when it was measured; uncertain: of a reason") &&
                 Contains("check passed"));
  // Too far from both.
  CHECK_THAT(command_with(tuning, "run sgd --set n=700 --schedule auto").text,
             Contains("the automatic schedule is 'sgd-fused': it ships, and nothing was measured"));
  const ChildOutput off = run_command("run sgd --set n=100 --schedule auto",
                                      "COCONET_TUNE=off COCONET_TUNE_FILE=" + tuning.string());
  CHECK_THAT(off.text, Contains("the automatic schedule is 'sgd-fused': it ships"));
}

TEST_CASE("scattered parameters are tuned for the list that is given, and found for another") {
  const ScratchDirectory scratch;
  const auto tuning = scratch.path() / "tuning.json";
  const std::string program = "sgd --scattered --groups ";
  CHECK_THAT(command_with(tuning, "tune " + program + "--list n=70,30 --cluster host-2rank").text,
             Contains("\nas it is ") && Contains("\n  A: no steps\n"));
  CHECK_THAT(
      command_with(tuning, "run " + program + "--list n=7,60,40 --schedule auto --check").text,
      Contains("the automatic schedule is 'sgd_scattered-tuned'") && Contains("check passed"));
}

TEST_CASE("with COCONET_TUNE=on what is not known is measured, once") {
  const ScratchDirectory scratch;
  const auto tuning = scratch.path() / "tuning.json";
  const std::string environment =
      "COCONET_TUNE=on COCONET_TUNE_S=1000 COCONET_TUNE_FILE=" + tuning.string();
  for (int time = 0; time < 2; ++time) {
    const ChildOutput run = run_command("run sgd --set n=100 --schedule auto --check", environment);
    INFO(run.text);
    CHECK(run.code == 0);
    CHECK_THAT(run.text, Contains("the automatic schedule is 'sgd-tuned'"));
    CHECK(nlohmann::json::parse(read_file(tuning))["programs"][0]["choices"].size() == 1);
  }
  // A program that has values for each buffer, too, whose number is an extent.
  const ChildOutput run = run_command(
      "run sgd --scattered --groups --list n=70,30 --schedule auto --check", environment);
  INFO(run.text);
  CHECK(run.code == 0);
  CHECK_THAT(run.text, Contains("the automatic schedule is 'sgd_scattered-tuned'"));
}

TEST_CASE("COCONET_TUNE=on says what it does, and ends when COCONET_TUNE_S is over") {
  const ScratchDirectory scratch;
  const ChildOutput run = run_command(
      "run sgd --set n=100 --schedule auto --check",
      "COCONET_TUNE=on COCONET_TUNE_S=0.001 COCONET_TUNE_FILE=" + (scratch.path() / "t").string());
  CHECK_THAT(run.text,
             Contains("the schedules of 'sgd' are measured, n=100, for 0.001 s at most") &&
                 Contains(" s nothing is measured yet: COCONET_TUNE_S gives it longer") &&
                 Contains("the automatic schedule is 'sgd-fused'") && Contains("check passed"));
}

TEST_CASE("a tuning file of another device or version is ignored with one line") {
  const ScratchDirectory scratch;
  const auto tuning = scratch.path() / "tuning.json";
  for (const std::string other : {"library", "device"}) {
    (void)command_with(tuning, "tune sgd --sizes 100 --cluster host-2rank");
    auto kept = nlohmann::json::parse(read_file(tuning));
    kept[other] = "another";
    kept["of_that_version"] = 1;
    write_file(tuning, kept.dump());
    const ChildOutput run = command_with(tuning, "run sgd --set n=100 --schedule auto");
    CHECK_THAT(
        run.text,
        Contains("the tuning file '" + tuning.string() + "' is ignored: it is of version ") &&
            Contains("another") && Contains("the automatic schedule is 'sgd-fused'"));
  }
}

TEST_CASE("a malformed tuning file is ignored with its place, and not lost when it is replaced") {
  const ScratchDirectory scratch;
  const auto tuning = scratch.path() / "tuning.json";
  (void)command_with(tuning, "tune sgd --sizes 100 --cluster host-2rank");
  auto kept = nlohmann::json::parse(read_file(tuning));
  kept["programs"][0]["choices"][0]["sizes"]["n"] = 0;
  write_file(tuning, kept.dump());
  CHECK_THAT(command_with(tuning, "run sgd --set n=100 --world local:2 --schedule auto").text,
             Contains("the tuning file '" + tuning.string() +
                      "' is ignored: tuning JSON at /programs/0/choices/0/sizes/n"));
  CHECK_THAT(run_command("doctor", "COCONET_TUNE_FILE=" + tuning.string()).text,
             Contains("tuning.json is ignored: tuning JSON at /programs/0/choices/0/sizes/n"));
  CHECK_THAT(command_with(tuning, "tune sgd --sizes 100 --cluster host-2rank").text,
             Contains("what was in it, and is damaged, is in '" + tuning.string() + ".damaged-1'"));
  CHECK(read_file(tuning.string() + ".damaged-1") == kept.dump());
  CHECK(nlohmann::json::parse(read_file(tuning))["programs"].size() == 1);
}

TEST_CASE("Ctrl-C while the machine is measured keeps what is") {
  const ScratchDirectory scratch;
  const std::string tuning = (scratch.path() / "tuning.json").string();
  for (const std::string arguments : {"calibrate", "tune sgd --sizes 100"}) {
    std::filesystem::remove(tuning);
    // It is written when the first measurement is done, of which there are many.
    const ChildOutput said =
        run_shell("COCONET_TUNE_FILE='" + tuning + "' '" COCONET_BIN_DIR "/coconet' " + arguments +
                  " & for i in $(seq 6000); do [ -s '" + tuning +
                  "' ] && break; sleep 0.01; done; " + "kill -INT $!; wait $!; echo code $?");
    INFO(said.text);
    const bool is_tune = arguments.starts_with("tune");
    CHECK_THAT(said.text, Contains("interrupted") && Contains("the next time goes on from there") &&
                              Contains(is_tune ? "code 0" : "code 1"));
    const auto kept = nlohmann::json::parse(read_file(tuning));
    CHECK(kept["machines"].empty());
    REQUIRE(kept["begun"].size() == 1);
    CHECK(kept["begun"][0]["launch_us"] > 0);
  }
}

TEST_CASE("the machine that calibrate measures is a cluster that sim takes") {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "this.json";
  const ChildOutput said =
      command_with(scratch.path() / "tuning.json", "calibrate --out " + file.string());
  CHECK_THAT(
      run_command("doctor", "COCONET_TUNE_FILE=" + (scratch.path() / "none.json").string()).text,
      Contains("[--] tuning          nothing was measured here"));
  CHECK_THAT(
      run_command("doctor", "COCONET_TUNE_FILE=" + (scratch.path() / "tuning.json").string()).text,
      Contains("tuning.json: measured with 1 ranks, 0 programs tuned"));
  CHECK_THAT(said.text, StartsWith("measured-host-1rank: ") &&
                            Contains("measured by coconet calibrate") && Contains("GB/s") &&
                            Contains("kept in "));
  CHECK_THAT(coconet_command("sim sgd --sizes 2^10,2^20 --cluster " + file.string()).out,
             StartsWith("sgd on measured-host-1rank, 1 rank"));
}

TEST_CASE("what cannot be tuned is said before anything is measured") {
  CHECK_THAT(coconet_command("tune sgd --sizes 64 --cluster dgx9").err,
             Contains("did you mean 'dgx2'?"));
  CHECK_THAT(coconet_command("tune sgd --sizes k=64").err,
             Contains("there is no dimension 'k'; the dimensions of sgd are n."));
  CHECK_THAT(
      coconet_command("tune sgd --sizes 64 --cluster host-2rank --out /no/such/folder/best.json")
          .err,
      Contains("Cannot write the file '/no/such/folder/best.json' of --out"));
}
