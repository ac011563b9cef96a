// What killed processes leave behind is removed by the next one, and nothing else is.
#include "jit/config/leftovers.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>

#include "child_process.h"
#include "coconet/error.h"
#include "files.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/config/files.h"
#include "refusal.h"

using namespace coconet;
using test::names_in;
using test::read_file;
namespace fs = std::filesystem;

TEST_CASE("what has the prefix and nobody has locked is removed") {
  const test::ScratchDirectory scratch;
  const fs::path& at = scratch.path();
  fs::create_directory(at / "tmp-dead");
  std::ofstream(at / "tmp-dead" / "file") << "1";
  fs::create_directory(at / "tmp-alive");
  std::ofstream(at / "tmp-file") << "2";
  std::ofstream(at / "other") << "3";
  fs::create_symlink(at / "other", at / "tmp-link");
  std::ofstream(at / "tmp-somebody's");
  const bool is_root = chown((at / "tmp-somebody's").c_str(), 12345, -1) == 0;
  const jit::OpenFile lock = jit::lock_path(at / "tmp-alive");
  REQUIRE(lock.is_open());
  CHECK_FALSE(jit::lock_path(at / "tmp-alive").is_open());
  std::set<std::string> told;
  jit::remove_leftovers(at, "tmp-", [&](const fs::path& path, const std::error_code& error) {
    CHECK_FALSE(error);
    told.insert(path.filename().string());
  });
  std::set<std::string> left{"other", "tmp-alive", "tmp-link"}, gone{"tmp-dead", "tmp-file"};
  (is_root ? left : gone).insert("tmp-somebody's");
  CHECK(names_in(at) == std::vector<std::string>(left.begin(), left.end()));
  CHECK(told == gone);
  CHECK(read_file(at / "other") == "3");
  CHECK_NOTHROW(jit::remove_leftovers(at / "nowhere", "tmp-"));
  CHECK_THROWS_AS(jit::remove_leftovers(at / "other", "tmp-"), std::system_error);
}

TEST_CASE("what somebody takes for a leftover while it is made is made again") {
  const test::ScratchDirectory scratch;
  int made = 0;
  jit::OpenFile lock;
  const fs::path path = jit::make_locked(
      [&] {
        fs::path one = scratch.path() / std::to_string(made++);
        if (made > 2) fs::create_directory(one);  // the first two vanish
        return one;
      },
      lock);
  CHECK(path == scratch.path() / "2");
  CHECK(lock.is_open());
}

TEST_CASE("without a descriptor to lock what is made there is an error, and nothing is left") {
  const test::ScratchDirectory scratch;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  jit::OpenFile lock;
  const auto make = [&] {
    fs::path one = scratch.path() / "made";
    fs::create_directory(one);
    const rlimit none{0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    return one;
  };
  const std::string said = refusal<std::system_error>([&] { (void)jit::make_locked(make, lock); });
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(said == "cannot open '" + (scratch.path() / "made").string() + "': Too many open files");
  CHECK(names_in(scratch.path()).empty());
}

TEST_CASE("the directory of a compilation that was killed is removed by the next one") {
  const test::ScratchDirectory scratch;
  const std::string environment = "TMPDIR=" + scratch.path().string();
  (void)test::run_test_case("leftovers-of-a-compiler", environment);
  REQUIRE(names_in(scratch.path()).size() == 1);
  const std::string first = names_in(scratch.path()).front();
  CHECK(first.starts_with("coconet-jit-scratch-"));
  (void)test::run_test_case("leftovers-of-a-compiler", environment);
  REQUIRE(names_in(scratch.path()).size() == 1);
  CHECK(names_in(scratch.path()).front() != first);
}

TEST_CASE("shared memory that a killed job has left is removed by the next one that needs it") {
  const fs::path left = "/dev/shm/coconet-jit-left-by-a-test", alive = left.string() + "-alive";
  std::ofstream(left) << "left";
  std::ofstream(alive) << "alive";
  const jit::OpenFile lock = jit::lock_path(alive);
  const auto memory = jit::map_across_processes(
      0, {0}, 4096, [](std::string_view mine) { return std::vector{std::string(mine)}; },
      jit::SharedFile::shm);
  CHECK(memory);
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(alive));
  fs::remove(alive);
}

TEST_CASE("a file that a killed process had begun to write is removed with the next write") {
  const test::ScratchDirectory scratch;
  const fs::path file = scratch.path() / "result.json";
  std::ofstream(scratch.path() / ".result.json.tmp-0badcafe") << "half";
  std::ofstream(scratch.path() / ".other.json.tmp-0badcafe") << "half";
  jit::write_atomically(file, "whole", "--json");
  jit::write_atomically(file, "again", "--json");
  CHECK(read_file(file) == "again");
  CHECK(names_in(scratch.path()) ==
        std::vector<std::string>{".other.json.tmp-0badcafe", "result.json"});
  CHECK_THROWS_WITH(jit::write_atomically("/nowhere/x", "", "--json"),
                    "Cannot write the file '/nowhere/x' of --json (No such file or directory): is "
                    "its directory there, and writable?");
}
