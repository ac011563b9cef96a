// COCONET_DUMP_DIR: copies of kernels, in directories that nobody else may write in.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "coconet/coconet.h"
#include "elements.h"
#include "files.h"
#include "require_exit.h"
#include "second_user.h"

using namespace coconet;
using Catch::Matchers::Contains;
using test::read_file;
namespace fs = std::filesystem;

namespace {

/// Runs a step whose one kernel is dumped to `directory`; what is said.
std::string dump_to(const fs::path& directory) {
  return test::require_exit(
      test::run_command("run adam --schedule fused --set n=100 --world local:2 --iters 1",
                        "COCONET_DUMP_DIR='" + directory.string() + "'"));
}

/// The bytes of each regular file in `directory`, by name.
std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory))
    files[entry.path().filename()] = read_file(entry.path());
  return files;
}

struct stat status_of(const fs::path& file) {
  struct stat status {};
  REQUIRE(lstat(file.c_str(), &status) == 0);
  return status;
}

/// A directory for dumps, and what a run puts there.
struct Dumped {
  test::ScratchDirectory scratch;
  fs::path directory = scratch.path() / "dumps";
  std::map<std::string, std::string> whole;
  Dumped() {
    REQUIRE_THAT(dump_to(directory), !Contains("warn"));
    whole = files_of(directory);
    REQUIRE(whole.size() == 3);
  }
};

}  // namespace

TEST_CASE_METHOD(Dumped, "copies of kernels are their owner's alone") {
  CHECK((status_of(directory).st_mode & 07777) == 0700);
  for (const auto& [name, bytes] : whole)
    CHECK((status_of(directory / name).st_mode & 07777) == 0600);
}

TEST_CASE_METHOD(Dumped, "nothing is dumped where other users may write") {
  const std::string it = "'" + directory.string() + "'";
  for (const auto& [name, bytes] : whole) fs::remove(directory / name);
  const auto refusal = [&](mode_t mode) {
    REQUIRE(chmod(directory.c_str(), mode) == 0);
    std::string said = dump_to(directory);
    CHECK(files_of(directory).empty());
    return said;
  };
  const std::string start =
      "kernels are not written to COCONET_DUMP_DIR: other users may write in " + it;
  CHECK_THAT(refusal(0777),
             Contains(start + " (its mode is 0777), and so put code there; chmod go-w " + it));
  CHECK_THAT(refusal(0775), Contains(start + " (its mode is 0775), and so put"));
  CHECK_THAT(refusal(01777),  // as /tmp is
             Contains(start + " (its mode is 01777), and so put code there; name one of your own "
                              "below it"));
  REQUIRE(chmod(directory.c_str(), 0755) == 0);
  CHECK_THAT(dump_to(directory), !Contains("warn"));
  CHECK((files_of(directory) == whole));
}

TEST_CASE_METHOD(
    Dumped, "a copy that is damaged or is a link is replaced, and what it led to is not written") {
  const fs::path precious = scratch.path() / "precious";
  std::ofstream(precious) << "precious";
  for (const auto& [name, bytes] : whole) {
    const fs::path file = directory / name;
    fs::resize_file(file, bytes.size() / 2);
    CHECK_THAT(dump_to(directory), !Contains("warn"));
    CHECK((files_of(directory) == whole));
    fs::remove(file);
    fs::create_symlink(precious, file);
    CHECK_THAT(dump_to(directory), !Contains("warn"));
    CHECK((files_of(directory) == whole));
    CHECK(S_ISREG(status_of(file).st_mode));
    CHECK(read_file(precious) == "precious");
  }
}

TEST_CASE_METHOD(Dumped, "a copy in use is never written, only replaced") {
  const fs::path object = directory / [&] {
    for (const auto& [name, bytes] : whole) {
      if (name.ends_with(".so")) return name;
    }
    return std::string();
  }();
  const fs::path held = scratch.path() / "held";
  fs::create_hard_link(object, held);
  std::ofstream(held, std::ios::app) << "more";
  const std::string longer = read_file(held);
  (void)dump_to(directory);
  CHECK((read_file(held) == longer));
  CHECK((files_of(directory) == whole));
}

TEST_CASE_METHOD(Dumped,
                 "what another user has put under a kernel's name is not loaded, but replaced") {
  if (test::lacks_root()) return;
  // From when the directory was open to all: the bytes are right, and may be others at any time.
  for (const auto& [name, bytes] : whole) {
    REQUIRE(chown((directory / name).c_str(), test::nobody, test::nobody) == 0);
    REQUIRE(chmod((directory / name).c_str(), 0666) == 0);
  }
  CHECK_THAT(dump_to(directory), !Contains("warn"));
  CHECK((files_of(directory) == whole));
  for (const auto& [name, bytes] : whole) {
    CHECK(status_of(directory / name).st_uid == geteuid());
    CHECK((status_of(directory / name).st_mode & 07777) == 0600);
  }
}

TEST_CASE_METHOD(Dumped,
                 "nothing is written into another user's directory, nor where his link leads") {
  if (test::lacks_root()) return;
  const fs::path own = scratch.path() / "own";
  fs::create_directory(own);
  const fs::path link = scratch.path() / "link";
  fs::create_directory_symlink(own, link);
  REQUIRE(lchown(link.c_str(), test::nobody, test::nobody) == 0);
  CHECK_THAT(
      dump_to(link),
      Contains("kernels are not written to COCONET_DUMP_DIR: '" + link.string() +
               "' is a symbolic link of user nobody, who may have it lead anywhere; name the "
               "directory itself"));
  CHECK(files_of(own).empty());

  const std::map<std::string, std::string> before = files_of(directory);
  REQUIRE(chown(directory.c_str(), test::nobody, test::nobody) == 0);
  for (const mode_t mode : {0755U, 01777U}) {
    REQUIRE(chmod(directory.c_str(), mode) == 0);
    for (const auto& [name, bytes] : whole) std::ofstream(directory / name) << "planted";
    CHECK_THAT(dump_to(directory),
               Contains("kernels are not written to COCONET_DUMP_DIR: '" + directory.string() +
                        "' belongs to user nobody, and kernels found "
                        "there would run as user root"));
    for (const auto& [name, bytes] : whole) CHECK(read_file(directory / name) == "planted");
    CHECK(files_of(directory).size() == whole.size());
  }
}

TEST_CASE("kernels run whose dump directory is mounted noexec, and the directory is named") {
  const test::ScratchDirectory scratch;
  const std::string mount =
      "unshare -m sh -c \"mount -t tmpfs -o noexec none '" + scratch.path().string() + "'";
  if (test::run_shell(mount + "\"").code != 0) {
    WARN("no file system can be mounted here: what a noexec one does is left out");
    return;
  }
  const std::string said = test::require_exit(test::run_shell(
      mount + " && COCONET_DUMP_DIR='" + scratch.path().string() +
      "/dumps' '" COCONET_BIN_DIR
      "/coconet' run adam --schedule fused --set n=100 --world local:2 --iters 1\""));
  CHECK_THAT(said,
             Contains("kernels cannot be loaded from the directory '" + scratch.path().string() +
                      "/dumps', where profilers would find their symbols: ") &&
                 Contains("They are loaded from memory. Is the directory mounted "
                          "noexec?"));
}

TEST_CASE("a kernel of a long name", "[.dump-long-name]") {
  const test::ScratchDirectory scratch;
  for (const std::size_t letters : {239U, 1000U}) {
    const World world = World::self();
    Program program("long", Mesh::over(world));
    const Dim n = program.dim("n", 10);
    const Value x = program.input("x", f32, {n}, replicated);
    const Value state = program.state(std::string(letters, 's'), f32, {n}, replicated);
    update(state, state + x);
    Executable step = compile(program, Schedule(), world);
    step.write("x", std::vector<float>(10, 1.0f));
    step.run();
    step.save(scratch.path() / std::to_string(letters));
    step.run();
    (void)step.load(scratch.path() / std::to_string(letters));
    CHECK((test::elements_of(step, std::string(letters, 's')) == std::vector<float>(10, 1.0f)));
  }
}

TEST_CASE("names of people's choice may be longer than those of files") {
  const test::ScratchDirectory scratch;
  const std::string said = test::require_exit(test::run_test_case(
      "dump-long-name", "COCONET_DUMP_DIR='" + (scratch.path() / "dumps").string() + "'"));
  CHECK_THAT(said, !Contains("warn"));
  CHECK(files_of(scratch.path() / "dumps").size() == 6);
}
