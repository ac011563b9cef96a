// What fuzzers have found, and what they begin with, given to the library again. docs/building.md
// says how more is found.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <utility>

#include "files.h"
#include "fuzz/targets.h"
#include "jit/config/log.h"

using namespace coconet;
using namespace coconet::fuzz;
namespace fs = std::filesystem;

namespace {

const fs::path corpus = COCONET_SOURCE_DIR "/tests/fuzz/corpus";

/// What `target` says to `text`; the finding, where there is one.
std::string answer(const Target& target, std::string_view text) {
  try {
    return run(target, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  } catch (const std::exception& finding) {
    return std::string("a finding: ") + finding.what();
  }
}

/// Whether all files of `folder` are answered.
void replay(const Target& target, const fs::path& folder) {
  REQUIRE(fs::is_directory(folder));
  for (const auto& entry : fs::directory_iterator(folder)) {
    INFO(target.name << " with " << entry.path());
    CHECK_THAT(answer(target, test::read_file(entry.path())), !Catch::StartsWith("a finding: "));
  }
}

}  // namespace

TEST_CASE("every input of the corpora is taken, or refused with an error of the library") {
  (void)jit::set_log_level("off");
  for (const Target& target : targets) replay(target, corpus / target.name);
  (void)jit::set_log_level("warn");
}

TEST_CASE("what was found is refused with its place") {
  const std::pair<std::string_view, std::string_view> said[] = {
      {"program/duplicate.json", "program JSON at /mesh/0: the key 'size' appears twice"},
      {"program/overflow.json", "program JSON at /mesh/0/size: number overflow parsing '1e999'"},
      {"program/utf8.json", "program JSON, line 1, column 30: "},
      {"schedule/duplicate.json", "schedule JSON at /steps/0/split: the key 'op' appears twice"},
      {"schedule/deep.json", "schedule JSON at /steps/0/0"},
      {"tuning/duplicate.json", "tuning JSON: the key 'programs' appears twice"},
      {"checkpoint/outside.json", "'checkpoint.json' is damaged at byte "},
      {"checkpoint/overlap.json", "'checkpoint.json' is damaged at byte "},
      {"cluster/overflow.json", "cluster JSON at /launch_us: number overflow parsing '1e400'"},
  };
  for (const auto& [file, sentence] : said) {
    const Target& target =
        *std::ranges::find(targets, file.substr(0, file.find('/')), &Target::name);
    CHECK_THAT(answer(target, test::read_file(corpus / file)),
               Catch::StartsWith(std::string(sentence)));
  }
}

TEST_CASE("a corpus has no folder but those of the targets") {
  for (const auto& entry : fs::directory_iterator(corpus)) {
    INFO(entry.path());
    CHECK(std::ranges::find(targets, entry.path().filename().string(), &Target::name) !=
          std::end(targets));
  }
}
