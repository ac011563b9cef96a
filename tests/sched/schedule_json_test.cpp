// Schedules as JSON: round trips, the published schema, and an error with a pointer for whatever is
// wrong.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "coconet/programs.h"
#include "golden.h"
#include "ir/access.h"
#include "sched/schedule.h"
#include "sched/shipped.h"
#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;
using Catch::StartsWith;

namespace {

std::string error_of(const std::string& json) {
  return refusal<ScheduleError>([&] { (void)Schedule::parse(json); });
}

/// A schedule with one step.
std::string with_step(const std::string& step) {
  return R"({"coconet_schedule": 1, "name": "s", "steps": [)" + step + "]}";
}

}  // namespace

TEST_CASE("a schedule built in C++ survives a round trip, knobs included") {
  const Schedule schedule = Schedule("mine")
                                .split("avg", "reduce_scatter+all_gather", 1)
                                .split("total", "reduce+broadcast")
                                .reorder("avg.all_gather", {"m.new", "w.new"})
                                .as_slice("m")
                                .dead()
                                .fuse("k", "all_reduce", {"avg.reduce_scatter", "w.new"},
                                      {"direct", "simple", 4, 256, 16})
                                .fuse("l", "computation", {"x"});
  const Schedule read = Schedule::parse(schedule.json());
  CHECK(read.json() == schedule.json());
  CHECK(read.name() == "mine");
  CHECK(sched::steps_of(read).steps == sched::steps_of(schedule).steps);
}

TEST_CASE("a step may say why it is there") {
  const Schedule read = Schedule::parse(R"({"coconet_schedule": 1, "name": "s", "steps": [
    {"why": "less to gather", "split": {"op": "avg"}}]})");
  CHECK(sched::steps_of(read).steps[0].why == "less to gather");
  CHECK(read.step(0) == "split op=avg");
  CHECK(sched::steps_of(Schedule::parse(read.json())).steps == sched::steps_of(read).steps);
  CHECK_THAT(refusal([] {
               (void)Schedule::parse(
                   R"({"coconet_schedule": 1, "name": "s", "steps": [{"why": "alone"}]})");
             }),
             Catch::Contains("/steps/0") && Catch::Contains("an object with one key"));
}

TEST_CASE("an automatic schedule has no steps, survives JSON, and is not applied") {
  const Program program = programs::adam(Mesh({{"world", 2}}));
  const Schedule schedule = Schedule::automatic();
  CHECK(schedule.is_automatic());
  CHECK(schedule.size() == 0);
  CHECK_FALSE(Schedule("s").is_automatic());
  const Schedule read = Schedule::parse(schedule.json());
  CHECK(read.is_automatic());
  CHECK(read.json() == schedule.json());
  CHECK_THAT(refusal<ScheduleError>([&] { (void)schedule.apply(program); }),
             Catch::Contains("is automatic: it has no steps until compile() chooses them"));
  CHECK_THAT(refusal([] {
               (void)Schedule::parse(R"({"coconet_schedule": 1, "name": "s",
                 "automatic": true, "steps": []})");
             }),
             Catch::Contains("/steps") && Catch::Contains("no steps of its own"));
}

TEST_CASE("JSON holds what differs from the fallbacks") {
  CHECK(Schedule("s")
            .split("avg")
            .dead()
            .fuse("k", "computation", {"x"}, {"", "", 0, 64, 0})
            .json() == R"({
  "coconet_schedule": 1,
  "name": "s",
  "steps": [
    {
      "split": {
        "op": "avg"
      }
    },
    {
      "dead": {}
    },
    {
      "fuse": {
        "kernel": "k",
        "kind": "computation",
        "ops": [
          "x"
        ],
        "threads": 64
      }
    }
  ]
}
)");
}

TEST_CASE("every shipped schedule survives a round trip and is called like its file") {
  for (const sched::ShippedSchedule& shipped : sched::shipped_schedules()) {
    INFO(shipped.file);
    const Schedule schedule = Schedule::parse(shipped.text);
    CHECK(schedule.name() + ".json" == shipped.file);
    CHECK(Schedule::parse(schedule.json()).json() == schedule.json());
    CHECK(Schedule::load(std::string(shipped.file)).json() == schedule.json());
  }
}

TEST_CASE("a step reads as its arguments that differ from the fallbacks") {
  const Schedule schedule = Schedule()
                                .split("avg")
                                .split("avg", "reduce_scatter+all_gather", 1)
                                .reorder("g", {"a", "b"})
                                .dead()
                                .fuse("k", "computation", {"x"}, {"", "simple", 2, 0, 0});
  REQUIRE(schedule.size() == 5);
  CHECK(schedule.step(0) == "split op=avg");
  CHECK(schedule.step(1) == "split op=avg dim=1");
  CHECK(schedule.step(2) == "reorder all_gather=g before=[a, b]");
  CHECK(schedule.step(3) == "dead");
  CHECK(schedule.step(4) == "fuse kernel=k kind=computation ops=[x] protocol=simple channels=2");
}

TEST_CASE("a fuse says the kind of its kernel or leaves it to the ops") {
  const Schedule schedule = Schedule::parse(
      R"({"coconet_schedule": 1, "name": "s", "steps": [{"fuse": {"kernel": "k", "ops":["x"]}}]})");
  CHECK(schedule.step(0) == "fuse kernel=k ops=[x]");
  CHECK(schedule.json() == Schedule("s").fuse("k", "", {"x"}).json());
  CHECK(schedule.json().find("kind") == std::string::npos);
}

TEST_CASE("the published schema is the one made from the table of transformations") {
  check_golden("docs/schedule.schema.json", sched::json_schema());
}

TEST_CASE("the schema has every transformation with its parameters, and forbids others") {
  const auto schema = nlohmann::json::parse(sched::json_schema());
  const auto& steps = schema["properties"]["steps"]["items"]["oneOf"];
  REQUIRE(steps.size() == sched::transformations().size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const sched::Transformation& row = *sched::transformations()[i];
    const auto& arguments = steps[i]["properties"][std::string(row.name)];
    CHECK(arguments["additionalProperties"] == false);
    CHECK(arguments["properties"].size() == row.parameters.size());
    for (const sched::Parameter& parameter : row.parameters) {
      INFO(row.name << "." << parameter.name);
      CHECK(arguments["properties"][std::string(parameter.name)]["description"] ==
            parameter.summary);
    }
  }
}

TEST_CASE("text that is no JSON is refused with line and column") {
  CHECK_THAT(error_of("{\n  \"coconet_schedule\" 1}"),
             StartsWith("schedule JSON, line 2, column 22: syntax error"));
  CHECK_THAT(error_of(""), StartsWith("schedule JSON, line 1, column 1: syntax error"));
  CHECK(error_of(R"({"coconet_schedule": 1, "coconet_schedule": 1})") ==
        "schedule JSON: the key 'coconet_schedule' appears twice in one object");
}

TEST_CASE("errors at the top level point at what is wrong") {
  CHECK(error_of("[]") ==
        "schedule JSON: is an array; it must be an object with the keys coconet_schedule, name and "
        "steps");
  CHECK(error_of("{}") == "schedule JSON: the key 'coconet_schedule' is missing");
  CHECK(error_of(R"({"coconet_schedule": 2, "phases": []})") ==
        "schedule JSON at /coconet_schedule: version 2 is unknown; this library reads version 1");
  CHECK(error_of(R"({"coconet_schedule": "1"})") ==
        "schedule JSON at /coconet_schedule: is a string; it must be a whole number of at least 1");
  CHECK(error_of(R"({"coconet_schedule": 1, "name": "s", "step": []})") ==
        "schedule JSON at /step: unknown key 'step'; did you mean 'steps'?");
  CHECK(error_of(R"({"coconet_schedule": 1, "steps": []})") ==
        "schedule JSON: the key 'name' is missing");
  CHECK(error_of(R"({"coconet_schedule": 1, "name": 3, "steps": []})") ==
        "schedule JSON at /name: is the number 3; it must be a string");
  CHECK(error_of(R"({"coconet_schedule": 1, "name": "s"})") ==
        "schedule JSON: the key 'steps' is missing");
  CHECK(error_of(R"({"coconet_schedule": 1, "name": "s", "steps": {}})") ==
        "schedule JSON at /steps: is an object; it must be an array");
  CHECK(error_of(R"({"coconet_schedule": 1, "name": "s", "description": [], "steps": []})") ==
        "schedule JSON at /description: is an array; it must be a string");
  CHECK(error_of(R"({"coconet_schedule": 1, "name": "s", "description": "d", "$schema": "x", )"
                 R"("steps": []})") == "(accepted)");
}

TEST_CASE("a step is an object with one transformation") {
  const std::string shape =
      "; it must be an object with one key, the transformation: {\"split\": {\"op\": \"avg\"}}, "
      "and perhaps a text, \"why\"";
  CHECK(error_of(with_step(R"("dead")")) == "schedule JSON at /steps/0: is a string" + shape);
  CHECK(error_of(with_step("{}")) == "schedule JSON at /steps/0: is an object" + shape);
  CHECK(error_of(with_step(R"({"dead": {}, "split": {"op": "avg"}})")) ==
        "schedule JSON at /steps/0: is an object" + shape);
  CHECK(error_of(with_step(R"({"dead": {}}, {"splt": {}})")) ==
        "schedule JSON at /steps/1: unknown transformation 'splt'; did you mean 'split'?");
  CHECK(error_of(with_step(R"({"parallelise": {}})")) ==
        "schedule JSON at /steps/0: unknown transformation 'parallelise'; known are split, "
        "reorder, as_slice, dead, fuse, overlap");
  CHECK(error_of(with_step(R"({"dead": []})")) ==
        "schedule JSON at /steps/0/dead: is an array; it must be an object");
}

TEST_CASE("errors in arguments point at them") {
  CHECK(error_of(with_step(R"({"split": {"opp": "avg"}})")) ==
        "schedule JSON at /steps/0/split/opp: unknown key 'opp'; did you mean 'op'?");
  CHECK(error_of(with_step(R"({"split": {"dim": 0}})")) ==
        "schedule JSON at /steps/0/split: the key 'op' is missing: the all_reduce to split");
  CHECK(error_of(with_step(R"({"split": {"op": ["avg"]}})")) ==
        "schedule JSON at /steps/0/split/op: is an array; it must be a string");
  CHECK(
      error_of(with_step(R"({"split": {"op": "avg", "dim": "0"}})")) ==
      "schedule JSON at /steps/0/split/dim: is a string; it must be a whole number of at least 0");
  CHECK(error_of(with_step(R"({"split": {"op": "avg", "dim": 0.5}})")) ==
        "schedule JSON at /steps/0/split/dim: is the number 0.5; it must be a whole number of at "
        "least 0");
  CHECK(error_of(with_step(R"({"split": {"op": "avg", "dim": 9223372036854775808}})")) ==
        "schedule JSON at /steps/0/split/dim: is the number 9223372036854775808; it must be a "
        "whole number of at least 0 and below 2^63");
  CHECK(error_of(with_step(R"({"split": {"op": "avg", "into": "halves"}})")) ==
        "schedule JSON at /steps/0/split/into: unknown into 'halves'; known are "
        "reduce_scatter+all_gather, reduce+broadcast, hierarchical");
  CHECK(error_of(with_step(R"({"fuse": {"kernel": "k", "kind": "compute", "ops": []}})")) ==
        "schedule JSON at /steps/0/fuse/kind: unknown kind 'compute'; known are computation, "
        "all_reduce, reduce_scatter, all_gather, reduce, broadcast, send");
  CHECK(error_of(with_step(R"({"reorder": {"all_gather": "g", "before": "w.new"}})")) ==
        "schedule JSON at /steps/0/reorder/before: is a string; it must be an array");
  CHECK(error_of(with_step(R"({"reorder": {"all_gather": "g", "before": ["w.new", null]}})")) ==
        "schedule JSON at /steps/0/reorder/before/1: is null; it must be a string");
  CHECK(
      error_of(with_step(
          R"({"fuse": {"kernel": "k", "kind": "computation", "ops": ["x"], "threads": true}})")) ==
      "schedule JSON at /steps/0/fuse/threads: is true or false; it must be a whole number of at "
      "least 0");
}

TEST_CASE("a step built in code is checked like one that is read") {
  CHECK(refusal([] {
          (void)sched::complete({"splitt", {}});
        }) == "there is no transformation 'splitt'; did you mean 'split'?");
  CHECK(refusal([] {
          (void)sched::complete({"parallelise", {}});
        }) ==
        "there is no transformation 'parallelise'; known are [split, reorder, as_slice, dead, "
        "fuse, overlap]");
  CHECK(refusal([] {
          (void)sched::complete({"split", {}});
        }) == "split needs 'op': the all_reduce to split");
  CHECK(refusal([] {
          (void)sched::complete({"split", {{"op", "avg"}, {"axis", "world"}}});
        }) == "split has no parameter 'axis'; it takes [op, into, dim]");
  CHECK(refusal([] {
          (void)sched::complete({"split", {{"op", std::int64_t{1}}}});
        }) == "split: 'op' must be a string: the all_reduce to split");
  CHECK(refusal([] {
          (void)sched::complete({"split", {{"op", "avg"}, {"dim", "0"}}});
        }) == "split: 'dim' must be a whole number: the dimension that reduce_scatter slices");
  CHECK(refusal([] {
          (void)sched::complete({"reorder", {{"all_gather", "g"}, {"before", "w"}}});
        }) ==
        "reorder: 'before' must be a list of strings: the last values of the computation that "
        "moves; what lies between moves with them");
  const Momentum step;
  CHECK(sched::legal(*ir::graph_of(step.p), {"splitt", {}}) ==
        "there is no transformation 'splitt'; did you mean 'split'?");
  CHECK(sched::legal(*ir::graph_of(step.p), {"split", {{"op", "avg"}}}).empty());
}

TEST_CASE("a schedule that does not exist is answered with the nearest that ships") {
  CHECK(refusal<ScheduleError>([] { (void)Schedule::load("adam-fuse.json"); }) ==
        "there is no schedule file 'adam-fuse.json', and none of that name ships; did you mean "
        "'adam-fused.json'?");
  CHECK(refusal<ScheduleError>([] { (void)Schedule::load("/no/such/place.json"); }) ==
        "there is no schedule file '/no/such/place.json', and none of that name ships");
}

TEST_CASE("a schedule file that cannot be read, or has an error, is named") {
  const auto folder = std::filesystem::temp_directory_path();
  CHECK(refusal<ScheduleError>([&] { (void)Schedule::load(folder); }) ==
        "cannot read the schedule file '" + folder.string() + "': it is a directory");
  const std::string program = std::string(COCONET_SOURCE_DIR) + "/tests/programs/ridge.json";
  CHECK(refusal<ScheduleError>([&] { (void)Schedule::load(program); }) ==
        program + ": schedule JSON: the key 'coconet_schedule' is missing");
}

TEST_CASE("a file comes before the shipped schedule of its name") {
  const auto file = std::filesystem::temp_directory_path() / "coconet-schedule-test.json";
  std::ofstream(file) << with_step(R"({"dead": {}})");
  CHECK(Schedule::load(file).name() == "s");
  std::filesystem::remove(file);
}

TEST_CASE("an illegal step is named with its number and its arguments") {
  const Momentum step;
  CHECK(
      refusal<ScheduleError>([&] { (void)Schedule("mine").dead().as_slice("m").apply(step.p); }) ==
      "schedule 'mine', step 2 (as_slice state=m): the update of 'm' (state) writes 'add_7' (add), "
      "which is computed whole; do 'split op=avg' and 'reorder all_gather=avg.all_gather "
      "before=[m.new, w.new]' first");
}

TEST_CASE("apply returns the program before and after each step") {
  const Momentum step;
  const auto programs = Schedule().dead().split("avg").apply(step.p);
  REQUIRE(programs.size() == 3);
  CHECK(programs[0].str() == step.p.str());
  CHECK(ir::graph_of(programs[2])->find("avg.all_gather") >= 0);
  CHECK(ir::graph_of(step.p)->find("avg") >= 0);
}
