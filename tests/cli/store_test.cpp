// A store that `coconet compile` has filled serves runs of all shipped programs and schedules, on
// the host and on the emulated GPU, with no compilation at all.
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "child_process.h"
#include "cli/command.h"
#include "coconet/programs.h"
#include "sample.h"

using namespace coconet::test;

namespace {

/// "adam --schedule fused", and so on.
std::vector<std::string> shipped() {
  std::istringstream lines(coconet_command("programs --schedules").out);
  std::vector<std::string> all;
  std::string program, schedule;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> program >> schedule;
    all.push_back(program + " --schedule " + schedule);
  }
  return all;
}

/// Compiles for `target`, then runs on as many ranks.
void check_store(const std::string& subject, int ranks, const std::string& target,
                 const std::string& environment) {
  const ScratchDirectory store;
  // What kernels do is not asked here.
  const std::string stored =
      environment + " COCONET_CXXFLAGS=-O0 COCONET_CACHE_DIR='" + store.path().string() + "'";
  INFO(subject << " on " << ranks << " ranks for " << target);
  const auto compiled = coconet_command(
      "compile " + subject + " " + target + " --ranks " + std::to_string(ranks), stored);
  INFO(compiled.out << compiled.err);
  REQUIRE(compiled.code == 0);
  CHECK(printed("run " + subject + " --iters 1 --warmup 0 --world local:" + std::to_string(ranks),
                stored)
            .find(" from a peer, 0 compiled") != std::string::npos);
}

/// The program of "pipeline_block --schedule fused" runs on a multiple of 2 ranks.
int stages_of(const std::string& subject) {
  return coconet::programs::find(subject.substr(0, subject.find(' ')))->stages;
}

void check_stores(const std::string& target, const std::string& environment) {
  const std::vector<std::string> subjects = shipped();
  REQUIRE(subjects.size() > 40);
  for (const std::string& subject : subjects) {
    for (const int ranks : {1, 2, 4, 8}) {
      if (ranks % stages_of(subject) != 0) continue;
      if (draw() && (ranks < 8 || runs_all())) check_store(subject, ranks, target, environment);
    }
  }
}

}  // namespace

TEST_CASE("a filled store serves the host with no compilation") {
  check_store("lamb --schedule unfused", 2, "--arch host", "");
  check_store("mlp_block --schedule overlapped", 2, "--arch host", "");
  check_stores("--arch host", "");
}

#if COCONET_HAS_STUBS

TEST_CASE("a filled store serves the emulated GPU with no compilation") {
  const std::string emulated =
      "COCONET_BACKEND=cuda STUB_CUDA_SMS=132 "
      "COCONET_CUDA_PATH='" COCONET_STUBS_DIR ":" COCONET_STUBS_DIR "/nvrtc'";
  check_store("lamb --schedule unfused", 2, "--arch sm_90 --share-gpu", emulated);
  check_store("mlp_block --schedule overlapped", 2, "--arch sm_90 --share-gpu", emulated);
  check_stores("--arch sm_90 --share-gpu", emulated);
}

#endif
