// The shipped schedules are the text of src/sched/shipped, byte for byte.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "coconet/error.h"
#include "coconet/schedule.h"
#include "refusal.h"
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

TEST_CASE("an optimizer without a file of its own has the one that serves any, with its name") {
  using coconet::Schedule;
  const Schedule schedule = Schedule::load("radam-fused.json");
  CHECK(schedule.name() == "radam-fused");
  CHECK(schedule.step(2) == "as_slice state=[!w]*");
  CHECK(schedule.step(4) ==
        "fuse kernel=radam_fused kind=all_reduce ops=[avg.reduce_scatter, w.all_gather, *.new]");
  const auto files = coconet::sched::shipped_schedule_files();
  for (const std::string& file : files) CHECK(coconet::sched::find_shipped_schedule(file));
  CHECK(std::find(files.begin(), files.end(), "radam-hierarchical.json") != files.end());
  CHECK_FALSE(coconet::sched::find_shipped_schedule("mlp_block-hierarchical.json"));
  CHECK(refusal<coconet::ScheduleError>([] { (void)Schedule::load("radam-fusd.json"); }) ==
        "there is no schedule file 'radam-fusd.json', and none of that name ships; did you mean "
        "'radam-fused.json'?");
}
