// Files that options of the command name: links stay, and what is no file is written through.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <catch2/catch.hpp>

#include "child_process.h"
#include "files.h"

using namespace coconet::test;
using Catch::Contains;
namespace fs = std::filesystem;

constexpr const char* run_sgd = "run sgd --set n=100 --warmup 0 --iters 1 ";

TEST_CASE("a link that an option names as an output stays, and what it leads to is written") {
  const ScratchDirectory scratch;
  const std::string at = scratch.path().string() + "/";
  fs::create_directories(at + "folder/states");
  for (const char* name : {"json", "trace", "w.npy"})
    fs::create_symlink("folder/" + std::string(name), at + name);
  fs::create_symlink("../momentum", at + "folder/states/momentum_buffer.npy");
  const ChildOutput said = run_command("run momentum_sgd --set n=100 --warmup 0 --iters 1 --json " +
                                       at + "json --trace " + at + "trace --output w=" + at +
                                       "w.npy --state-dict " + at + "folder/states");
  INFO(said.text);
  REQUIRE(said.code == 0);
  for (const char* name : {"json", "trace", "w.npy", "folder/states/momentum_buffer.npy"}) {
    CHECK(fs::is_symlink(at + name));
    CHECK_FALSE(read_file(at + name).empty());
  }
}

TEST_CASE("outputs go through descriptors, pipes and devices") {
  const ScratchDirectory scratch;
  const std::string at = scratch.path().string() + "/";
  const ChildOutput piped = run_command(std::string(run_sgd) + "--json /dev/stdout | cat");
  CHECK_THAT(piped.text, Contains("the 1 step timed") && Contains("\"ms_median\""));
  const ChildOutput to_file =
      run_command(std::string(run_sgd) + "--json /dev/stdout >" + at + "all; ls -l " + at);
  CHECK_THAT(read_file(at + "all"), Contains("the 1 step timed") && Contains("\"ms_median\""));
  REQUIRE(mkfifo((at + "pipe").c_str(), 0600) == 0);
  const ChildOutput through =
      run_command(std::string(run_sgd) + "--json " + at + "pipe & cat " + at + "pipe; wait");
  CHECK_THAT(through.text, Contains("\"ms_median\""));
  CHECK(fs::is_fifo(at + "pipe"));
  if (mknod((at + "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == -1) return;  // takes root
  CHECK(run_command(std::string(run_sgd) + "--json " + at + "null").code == 0);
  CHECK(fs::is_character_file(at + "null"));
}
