// Where the kernels of an executable come from.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "coconet/coconet.h"
#include "files.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "jit/comm/require_on_rank.h"
#include "jit/kernels/kernel_store.h"
#include "precisions.h"
#include "require_exit.h"
#include "sample.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// What the command says of its kernels in `directory`, which has its cache, too, and on standard
/// error as "said".
nlohmann::json counters_of(const std::filesystem::path& directory, const std::string& schedule) {
  const std::string file = (directory / "result.json").string();
  const std::string said =
      require_exit(run_command("run adam --schedule " + schedule +
                                   " --set n=100 --world local:2 --iters 1 --json '" + file + "'",
                               "COCONET_CACHE=rw COCONET_LOG=info COCONET_CACHE_DIR='" +
                                   (directory / "cache").string() + "'"));
  nlohmann::json counters = nlohmann::json::parse(read_file(file)).at("cache");
  counters["said"] = said;
  return counters;
}

CacheCounters difference(const CacheCounters& after, const CacheCounters& before) {
  return {after.hit_memory - before.hit_memory,    after.hit_disk - before.hit_disk,
          after.hit_peer - before.hit_peer,        after.miss - before.miss,
          after.compile_ms - before.compile_ms,    after.corrupt - before.corrupt,
          after.publish_lost - before.publish_lost};
}

}  // namespace

TEST_CASE("one kernel serves all sizes, and a second compile in the process finds it in memory") {
  const World world = World::self();
  Program program("any_size", Mesh::over(world));
  const Value x = program.state("x", f32, {program.dim("n")}, replicated);
  update(x, 2 * x);
  const auto counted = [&](std::int64_t n) {
    const CacheCounters before = jit::cache_counters();
    (void)compile(program, Schedule(), world, {{"n", n}});
    return difference(jit::cache_counters(), before);
  };
  const CacheCounters first = counted(7);
  CHECK(first.miss + first.hit_disk == 1);
  for (const std::int64_t n : {7, 1, 4099}) {
    const CacheCounters again = counted(n);
    CHECK(again.hit_memory == 1);
    CHECK(again.miss == 0);
    CHECK(again.hit_disk == 0);
  }
}

TEST_CASE("the ranks of a process compile a kernel once") {
  const CacheCounters before = jit::cache_counters();
  REQUIRE_NOTHROW(World::local(3, [&](World& world) {
    Program program("once_for_all", Mesh::over(world));
    const Value x = program.state("x", f32, {17}, replicated);
    update(x, x * 3 + 1);
    (void)compile(program, Schedule(), world);
  }));
  const CacheCounters counted = difference(jit::cache_counters(), before);
  CHECK(counted.miss + counted.hit_disk == 1);
  CHECK(counted.hit_memory == 2);
}

TEST_CASE("a second process compiles nothing") {
  const ScratchDirectory scratch;
  for (const char* schedule : {"fused", "unfused"}) {
    const nlohmann::json first = counters_of(scratch.path(), schedule);
    CHECK(first.at("miss") == 1);
    CHECK(first.at("hit_disk") == 0);
    const nlohmann::json second = counters_of(scratch.path(), schedule);
    CHECK(second.at("miss") == 0);
    CHECK(second.at("hit_disk") == 1);
  }
}

TEST_CASE("a kernel is found from another directory, with another locale and environment") {
  const ScratchDirectory scratch;
  const std::string cache =
      "COCONET_CACHE=rw COCONET_CACHE_DIR='" + (scratch.path() / "cache").string() + "' ";
  const auto said = [&](const std::string& environment) {
    return require_exit(run_shell("cd '" + scratch.path().string() + "' && " + cache + environment +
                                  " '" COCONET_BIN_DIR
                                  "/coconet' compile lamb --schedule unfused"));
  };
  CHECK_THAT(said(""), Catch::Matchers::Contains("5 compiled, 0 in the cache already"));
  // Another environment puts the stack and the heap elsewhere, and with them every order that hangs
  // on addresses.
  for (const char* environment :
       {"LC_ALL=de_DE.UTF-8 LANG=tr_TR", "HOME=/nowhere USER=nobody PADDING=xxxxxxxxxxxxxxxxxxxx",
        "env --chdir=/ "}) {
    CHECK_THAT(said(environment), Catch::Matchers::Contains("0 compiled, 5 in the cache already"));
  }
}

TEST_CASE("source, binary and log of a kernel are dumped, also when it is found") {
  const ScratchDirectory scratch;
  const auto dumped = [&](const std::string& directory) {
    const std::filesystem::path path = scratch.path() / directory;
    (void)require_exit(
        run_command("run adam --schedule fused --set n=100 --world local:2 --iters 1",
                    "COCONET_CACHE=rw COCONET_CACHE_DIR='" + (scratch.path() / "cache").string() +
                        "' COCONET_CXXFLAGS=-v COCONET_DUMP_DIR='" + path.string() + "'"));
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(path))
      files[file.path().extension()] = read_file(file.path());
    return files;
  };
  std::map<std::string, std::string> compiled = dumped("compiled");
  REQUIRE(compiled.size() == 3);
  CHECK_THAT(compiled[".cpp"], Catch::Matchers::Contains("KERNEL_ENTRY(adam_fused_kernel)"));
  CHECK_THAT(compiled[".so"], Catch::Matchers::StartsWith("\x7f"
                                                          "ELF"));
  CHECK_THAT(compiled[".log"], Catch::Matchers::Contains("Target: "));
  CHECK((dumped("found") == compiled));
}

TEST_CASE("a run says what its kernels cost, and that one was damaged") {
  const ScratchDirectory scratch;
  const auto counters = [&] { return counters_of(scratch.path(), "fused"); };
  const nlohmann::json cold = counters();
  CHECK(cold.at("miss") == 1);
  CHECK(cold.at("compile_ms") > 1.0);
  CHECK(cold.at("corrupt") == 0);
  CHECK(cold.at("publish_lost") == 0);
  // At the end of the process, too.
  CHECK_THAT(cold.at("said").get<std::string>(),
             Catch::Matchers::Contains("info: kernel cache: 1 in memory, 0 on disk, 0 from a peer, "
                                       "1 compiled in "));
  CHECK(counters().at("compile_ms") == 0.0);
  int entries = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(scratch.path() / "cache")) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || name.find(".v") == std::string::npos) continue;
    std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
    ++entries;
  }
  const nlohmann::json damaged = counters();
  CHECK(damaged.at("miss") == 1);
  CHECK(damaged.at("corrupt") == entries);  // the kernel, and what is known of the compiler
  CHECK(counters().at("hit_disk") == 1);
}

TEST_CASE("the source of a kernel is the same bytes in 100 processes") {
  const std::string first =
      require_exit(run_command("explain adam --schedule fused --show source"));
  REQUIRE_THAT(first, Catch::Matchers::Contains("KERNEL_ENTRY(adam_fused_kernel)"));
  int different = 0;
  for (int process = 1; process < 100; ++process) {
    // Another environment puts the stack and the arguments elsewhere.
    const ChildOutput again =
        run_command("explain adam --schedule fused --show source",
                    "PADDING=" + std::string(static_cast<std::size_t>(37 * process), 'x'));
    different += again.text == first ? 0 : 1;
  }
  CHECK(different == 0);
}
