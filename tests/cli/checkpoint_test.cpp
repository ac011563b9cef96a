// coconet run --save and --resume.
#include <catch2/catch.hpp>

#include "child_process.h"

using namespace coconet::test;
namespace fs = std::filesystem;

namespace {

ChildOutput run_adam(const std::string& arguments) {
  return run_command("run adam --set n=1000 --warmup 0 --world local:2 " + arguments);
}

}  // namespace

TEST_CASE("a run that is resumed on other ranks and another schedule ends with the same weights") {
  const ScratchDirectory scratch;
  const std::string saved = (scratch.path() / "saved").string();
  const auto weights = [&](const char* name) {
    return " --output w=" + (scratch.path() / name).string();
  };
  REQUIRE(run_adam("--schedule fused --iters 6" + weights("whole.npy")).code == 0);
  const ChildOutput first =
      run_adam("--schedule fused --iters 4 --save-every 1 --keep 3 --save " + saved);
  REQUIRE(first.code == 0);
  for (const char* name : {"step-2", "step-3", "step-4"}) CHECK(fs::exists(saved + "/" + name));
  CHECK_FALSE(fs::exists(saved + "/step-1"));
  const ChildOutput second = run_command(
      "run adam --set n=1000 --warmup 0 --iters 2 --world "
      "local:2 --schedule sliced --resume " +
      saved + weights("resumed.npy"));
  CHECK_THAT(second.text, Catch::Contains("resumed from '" + saved + "/step-4'"));
  CHECK(second.code == 0);
  CHECK(run_shell("cmp " + (scratch.path() / "whole.npy").string() + " " +
                  (scratch.path() / "resumed.npy").string())
            .code == 0);
}

TEST_CASE("options of checkpoints that do not go together are a wrong command line") {
  CHECK(run_adam("--keep 2").code == 2);
  CHECK(run_adam("--save-every 2").code == 2);
  CHECK(run_adam("--save x --keep 0").code == 2);
  CHECK(run_adam("--may-be-first-start").code == 2);
  const ChildOutput checked = run_adam("--check --resume x");
  CHECK(checked.code == 2);
  CHECK_THAT(checked.text, Catch::Contains("--check follows all steps from the first, and does not "
                                           "go with --resume."));
}

TEST_CASE("a run goes on past a newest checkpoint that is damaged, and saves over it") {
  const ScratchDirectory scratch;
  const std::string saved = (scratch.path() / "saved").string();
  REQUIRE(run_adam("--iters 4 --save-every 2 --save " + saved).code == 0);
  fs::resize_file(saved + "/step-4/checkpoint.json", 0);
  const ChildOutput second = run_adam("--iters 2 --resume " + saved + " --save " + saved);
  CHECK(second.code == 0);
  CHECK_THAT(second.text,
             Catch::Contains("the checkpoint '" + saved + "/step-4' is left out: '" + saved +
                             "/step-4/checkpoint.json' is damaged at byte 0") &&
                 Catch::Contains("resumed from '" + saved + "/step-2'"));
  CHECK(fs::exists(saved + "/step-4.damaged-1"));
  CHECK_THAT(run_adam("--iters 1 --resume " + saved).text,
             Catch::Contains("resumed from '" + saved + "/step-4'"));
  CHECK_THAT(run_adam("--iters 1 --resume " + saved + "/step-2").text,
             Catch::Contains("resumed from '" + saved + "/step-2'"));
}

TEST_CASE("--resume from what is missing is an error, unless it may be the first start") {
  const ScratchDirectory scratch;
  const std::string saved = (scratch.path() / "saved").string();
  const ChildOutput refused = run_adam("--iters 1 --resume " + saved);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.text,
             Catch::Contains("There is no directory '" + saved +
                             "' to load a checkpoint from; where this may be the first start, say "
                             "so: LoadOptions::may_be_first_start, or --may-be-first-start of "
                             "coconet run."));
  const std::string anew = "no checkpoint in '" + saved + "' yet: beginning anew";
  const ChildOutput first = run_adam("--iters 1 --may-be-first-start --resume " + saved);
  CHECK(first.code == 0);
  CHECK_THAT(first.text, Catch::Contains(anew));
  fs::create_directory(saved);
  const ChildOutput empty = run_adam("--iters 1 --resume " + saved);
  CHECK(empty.code == 0);
  CHECK_THAT(empty.text,
             Catch::Contains(anew) && Catch::Contains("there is no checkpoint in '" + saved + "'"));
}

TEST_CASE("--resume says what does not fit") {
  const ScratchDirectory scratch;
  const std::string saved = (scratch.path() / "saved").string();
  REQUIRE(run_adam("--iters 1 --save " + saved).code == 0);
  CHECK_THAT(run_command("run sgd --set n=1001 --iters 1 --resume " + saved).text,
             Catch::Contains("The state 'w' is f32 [1001] as a whole, and f32 [1000] in the "
                             "checkpoint '" +
                             saved + "/step-1'; both must be the same."));
}
