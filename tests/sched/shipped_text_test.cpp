// The shipped schedules are the text of src/sched/shipped, byte for byte.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sched/shipped.h"

namespace fs = std::filesystem;
using coconet::sched::shipped_schedules;

TEST_CASE("every schedule file is embedded byte for byte") {
  std::size_t files = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(COCONET_SOURCE_DIR) / "src/sched/shipped")) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().filename();
    INFO(name);
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const auto rows = shipped_schedules();
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.file == name; });
    REQUIRE(row != rows.end());
    CHECK(row->text == text.str());
    ++files;
  }
  CHECK(files > 0);
  CHECK(files == shipped_schedules().size());
}

TEST_CASE("the embedded schedules are sorted by file name") {
  const auto rows = shipped_schedules();
  CHECK(std::is_sorted(rows.begin(), rows.end(),
                       [](const auto& a, const auto& b) { return a.file < b.file; }));
}
