// Inputs that are no files: a pipe that nobody writes to, and a device that never ends, are refused
// wherever a file is read.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "child_process.h"
#include "cli/npy.h"
#include "coconet/coconet.h"
#include "refusal.h"
#include "sched/cost/cluster.h"

using namespace coconet;
namespace fs = std::filesystem;

TEST_CASE("no input that is a pipe or a device is waited for") {
  const test::ScratchDirectory scratch;
  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const struct {
    const char* what;
    std::function<void(const fs::path&)> read;
  } rows[] = {
      {"the schedule file", [](const fs::path& file) { (void)Schedule::load(file); }},
      {"the program file", [](const fs::path& file) { (void)Program::load(file); }},
      {"the cluster file", [](const fs::path& file) { (void)sched::load_cluster(file); }},
      {"the file", [](const fs::path& file) { (void)cli::read_npy(file); }},
  };
  for (const auto& row : rows) {
    const auto said = [&](const fs::path& file) { return refusal([&] { row.read(file); }); };
    CHECK(said(pipe) == std::string("cannot read ") + row.what + " '" + pipe.string() +
                            "': it is a pipe, and only files are read");
    CHECK(said("/dev/zero") == std::string("cannot read ") + row.what +
                                   " '/dev/zero': it is a device or a socket, and only files are "
                                   "read");
  }
}

TEST_CASE("a checkpoint with a pipe in the place of a file is damaged") {
  const test::ScratchDirectory scratch;
  const World world = World::self();
  Program program("states", Mesh::over(world));
  (void)program.state("x", f32, {4}, replicated);
  Executable step = compile(program, Schedule(), world);
  for (const char* name : {"checkpoint.json", "rank-00000.safetensors"}) {
    const fs::path saved = scratch.path() / name;
    step.save(saved);
    fs::remove(saved / name);
    REQUIRE(mkfifo((saved / name).c_str(), 0600) == 0);
    CHECK(refusal<CheckpointError>([&] { (void)step.load(saved); }) ==
          "'" + (saved / name).string() + "' is damaged at byte 0: it is no file");
  }
}

TEST_CASE("the command refuses a pipe at once, with the file and the reason") {
  const test::ScratchDirectory scratch;
  const std::string pipe = (scratch.path() / "pipe.json").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& arguments : std::vector<std::string>{
           "run sgd --schedule " + pipe, "run " + pipe, "sim sgd --cluster " + pipe,
           "run sgd --set n=5 --input g=" + pipe, "tune sgd --sizes 64 --cluster " + pipe}) {
    const auto said = test::run_command(arguments);
    INFO(arguments);
    CHECK(said.code != 0);
    CHECK_THAT(said.text, Catch::Contains("'" + pipe + "': it is a pipe, and only files are read"));
  }
  const auto said = test::run_command("run sgd --set n=100 --schedule auto --world local:2",
                                      "COCONET_TUNE_FILE=" + pipe);
  CHECK(said.code == 0);
  CHECK_THAT(said.text, Catch::Contains("the tuning file '" + pipe + "' is ignored"));
}
