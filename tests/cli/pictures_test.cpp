// What the command draws: programs as SVG, and runs as traces.
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "child_process.h"
#include "cli/command.h"
#include "cli/dot.h"
#include "coconet/coconet.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using namespace coconet::test;

namespace {

/// A folder with a program `dot` that runs `script`.
void plant_dot(const std::filesystem::path& folder, const std::string& script) {
  const auto file = folder / "dot";
  write_file(file, "#!/bin/sh\n" + script + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("a picture of a program has its kernels, and edges to the other ranks") {
  CHECK_THAT(printed("explain adam --schedule fused --ranks 8 --show dot"),
             StartsWith("digraph \"adam\"") && Contains("label=\"kernel adam_fused\"") &&
                 Contains("[label=\"8 ranks\\nof world\"") && Contains("dir=both"));
}

TEST_CASE("a picture's names may hold quotes, backslashes and line breaks") {
  using namespace coconet;
  Program program("6\" disk", Mesh({{"world", 2}}));
  const Value x = program.input("C:\\ \"x\"", f32, {8}, local);
  const Value total = all_reduce(x, sum).named("total");
  const Value twice = (total * 2).named("twice");
  program.output("y\ny", (twice + 1).named("more"));
  const Program after =
      Schedule().fuse("k", "computation", {"twice", "more"}).apply(program).back();
  const std::string text = cli::dot(program, after);
  CHECK_THAT(text, StartsWith("digraph \"6\\\" disk\" {\n") &&
                       Contains("label=\"program 6\\\" disk as written\"") &&
                       Contains("[label=\"C:\\\\ \\\"x\\\"\\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    int quotes = 0;
    for (std::size_t at = 0; at < line.size(); ++at) {
      if (line[at] == '\\') {
        ++at;
      } else if (line[at] == '"') {
        ++quotes;
      }
    }
    CHECK(quotes % 2 == 0);
  }
}

TEST_CASE("Graphviz draws the picture, where there is one") {
  const ScratchDirectory scratch;
  const std::string path = "PATH=" + scratch.path().string();
  CHECK_THAT(coconet_command("explain adam --schedule fused --show svg", path).err,
             Contains("There is no 'dot' on PATH") && Contains("install graphviz"));
  // dot -Tsvg -o PICTURE TEXT
  plant_dot(scratch.path(),
            "echo '<svg>drawn</svg>' > \"$3\"; read first < \"$4\"; echo \"$first\" >> \"$3\"");
  CHECK(printed("explain adam --schedule fused --show svg", path) ==
        "<svg>drawn</svg>\ndigraph \"adam\" {\n");
  plant_dot(scratch.path(), "echo 'syntax error in line 1'; exit 1");
  CHECK_THAT(complaint("explain adam --schedule fused --show svg", path),
             Contains("Graphviz cannot draw the picture") && Contains("syntax error in line 1"));
}

TEST_CASE("a trace has every kernel of every step, on every rank, in order") {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "trace.json";
  (void)printed(
      "run adam --schedule sliced --set n=5000 --world local:2 --warmup 1 --iters 4 --trace " +
      file.string());
  const auto trace = nlohmann::json::parse(read_file(file));
  std::map<int, std::map<int, int>> kernels;  // by rank and step
  std::map<int, double> last;                 // end of the rank's last kernel
  std::map<int, std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    const int rank = event["pid"];
    if (event["name"] == "process_name") names[rank] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    ++kernels[rank][event["args"]["step"]];
    const double begin = event["ts"], length = event["dur"];
    CHECK(length >= 0);
    CHECK(begin >= last[rank] - 0.01);
    last[rank] = begin + length;
    CHECK(event["tid"] == 0);
  }
  CHECK(names == std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}});
  for (const int rank : {0, 1}) {
    REQUIRE(kernels[rank].size() == 5);
    for (const auto& [step, count] : kernels[rank]) CHECK(count == kernels[rank][0]);
  }
}

TEST_CASE("what runs at once is on tracks of its own") {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "trace.json";
  (void)printed(
      "run mlp_block --schedule overlapped --set B=2 --set S=8 --set H=16 --set F=64 --iters 2 "
      "--trace " +
          file.string(),
      "COCONET_OVERLAP=on");
  std::map<int, int> spans;
  const auto trace = nlohmann::json::parse(read_file(file));
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++spans[event["tid"]];
  }
  CHECK(spans.size() == 2);
  CHECK(spans[0] == spans[1]);
}

TEST_CASE("a trace that cannot be written is an error") {
  CHECK_THAT(coconet_command("run sgd --set n=10 --trace /no/such/folder/t.json").err,
             Contains("Cannot write the file '/no/such/folder/t.json' of --trace"));
}
