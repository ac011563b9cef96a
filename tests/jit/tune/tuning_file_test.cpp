// Tuning files: their JSON, and what is found in them.
#include "jit/tune/tuning_file.h"
#include "ir/lists.h"

#include <catch2/catch.hpp>

#include "coconet/error.h"
#include "coconet/programs.h"
#include "refusal.h"

using namespace coconet;
using Catch::Contains;
using jit::TuningFile;

namespace {

TuningFile::Choice choice(Sizes sizes, double ms = 1) {
  return {std::move(sizes), Schedule("s").split("avg").json(), ms, 0.5};
}

std::string complaint(const std::string& rest) {
  return refusal([&] {
    (void)jit::parse_tuning(R"({"coconet_tuning": 1, "library": "0", "device": "x", )" + rest +
                            "}");
  });
}

}  // namespace

TEST_CASE("a tuning file survives JSON") {
  TuningFile file;
  file.library = "1.2";
  file.device = "a \"device\"";
  file.machines[2] = sched::load_cluster("host-2rank");
  file.set("sgd", "digest", choice({{"n", 64}}));
  file.set("sgd", "digest", choice({{"n", 128}}, 2));
  file.set("adam", "other", choice({}));
  TuningFile::Choice uncertain = choice({});
  uncertain.preempted = 0.25;
  uncertain.doubt = "a \"reason\"";
  file.set("lamb", "third", uncertain);
  file.machines[2].measured = {"2026-11-28", 1.04, 0.125};
  const TuningFile read = jit::parse_tuning(to_json(file));
  CHECK(to_json(read) == to_json(file));
  CHECK(read.device == file.device);
  REQUIRE(read.find("digest") != nullptr);
  CHECK(read.find("digest")->choices.size() == 2);
  CHECK(read.find("digest")->choices[1].ms == 2);
  CHECK(read.find("nothing") == nullptr);
  CHECK(read.find("third")->choices[0].preempted == 0.25);
  CHECK(read.find("third")->choices[0].doubt == uncertain.doubt);
  CHECK(read.machines.at(2).measured->on == "2026-11-28");
}

TEST_CASE("what is set again for the same sizes takes the place of what was there") {
  TuningFile file;
  file.set("sgd", "digest", choice({{"n", 64}}, 1));
  file.set("sgd", "digest", choice({{"n", 64}}, 3));
  REQUIRE(file.programs.size() == 1);
  REQUIRE(file.programs[0].choices.size() == 1);
  CHECK(file.programs[0].choices[0].ms == 3);
}

TEST_CASE("the nearest choice is taken, within a factor of 2 of every extent") {
  const TuningFile::TunedProgram program{
      "p", "d", {choice({{"a", 64}, {"b", 8}}, 1), choice({{"a", 256}, {"b", 8}}, 2)}};
  const auto ms = [&](Sizes sizes) {
    const TuningFile::Choice* found = jit::nearest_choice(program, sizes);
    return found == nullptr ? 0 : found->ms;
  };
  CHECK(ms({{"a", 64}, {"b", 8}}) == 1);
  CHECK(ms({{"a", 120}, {"b", 8}}) == 1);
  CHECK(ms({{"a", 130}, {"b", 8}}) == 2);
  CHECK(ms({{"a", 512}, {"b", 16}}) == 2);
  CHECK(ms({{"a", 513}, {"b", 8}}) == 0);
  CHECK(ms({{"a", 64}, {"b", 17}}) == 0);
  CHECK(ms({{"a", 64}}) == 0);
  CHECK(ms({{"a", 64}, {"c", 8}}) == 0);
}

TEST_CASE("the number of buffers counts for how near a choice is, and rules none out") {
  const std::string buffers = ir::buffers_of(Dim("n", 0)).name;
  const TuningFile::TunedProgram program{
      "p", "d", {choice({{"n", 64}, {buffers, 1}}, 1), choice({{"n", 64}, {buffers, 100}}, 2)}};
  CHECK(jit::nearest_choice(program, {{"n", 64}, {buffers, 3}})->ms == 1);
  CHECK(jit::nearest_choice(program, {{"n", 64}, {buffers, 40}})->ms == 2);
}

TEST_CASE(
    "programs are known by what they compute, their ranks and cores, and what may be sliced") {
  const auto digest = [](int ranks, DType dtype, const std::vector<std::string>& sliceable,
                         int cores = 1) {
    Program program = programs::sgd(Mesh({{"world", ranks}}), dtype);
    program.may_slice(sliceable);
    return jit::digest_of(program, cores);
  };
  CHECK(digest(2, f32, {}) == digest(2, f32, {}));
  CHECK(digest(2, f32, {}) != digest(4, f32, {}));
  CHECK(digest(2, f32, {}) != digest(2, f64, {}));
  CHECK(digest(2, f32, {}) != digest(2, f32, {"w"}));
  CHECK(digest(2, f32, {}) != digest(2, f32, {}, 2));
}

TEST_CASE("what is wrong in a tuning file is named with its place") {
  CHECK_THAT(refusal([] { (void)jit::parse_tuning("[]"); }), Contains("coconet_tuning"));
  CHECK_THAT(refusal([] { (void)jit::parse_tuning(R"({"coconet_tuning": 9})"); }),
             Contains("/coconet_tuning") && Contains("version 9 is unknown"));
  CHECK_THAT(
      complaint(R"("programs": [{"name": "p", "digest": "d", "choices": [{"sizes": {}, "ms": 1,
      "over_unfused": 1, "schedule": {"coconet_schedule": 1, "name": "s", "steps": []},
      "preempted": 1.5}]}])"),
      Contains("/choices/0/preempted: is the number 1.5; it must be a share, 0 to 1"));
  CHECK_THAT(complaint(R"("machine": [])"), Contains("unknown key 'machine'"));
  CHECK_THAT(complaint(R"("machines": [{"coconet_cluster": 1, "name": "m"}])"),
             Contains("/machines/0"));
  CHECK_THAT(complaint(R"("programs": [{"name": "p", "digest": "d", "choices": [
                 {"sizes": {}, "ms": 0, "over_unfused": 1, "schedule": {}}]}])"),
             Contains("/programs/0/choices/0/ms") && Contains("above 0"));
  CHECK_THAT(complaint(R"("programs": [{"name": "p", "digest": "d", "choices": [
                 {"sizes": {}, "ms": 1, "over_unfused": 1,
                  "schedule": {"coconet_schedule": 1, "name": "s", "steps": [{"spilt": {}}]}}]}])"),
             Contains("/programs/0/choices/0/schedule/steps/0") && Contains("split"));
}
