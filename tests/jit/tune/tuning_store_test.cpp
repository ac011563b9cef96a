// The tuning file on the disk: what is wrong with it stops nobody, and is not lost; and a
// measurement that is interrupted goes on from where it was.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "child_process.h"
#include "coconet/coconet.h"
#include "files.h"
#include "jit/comm/access.h"
#include "jit/tune/tuner.h"
#include "jit/tune/tuning_file.h"
#include "refusal.h"
#include "require_exit.h"
#include "sample.h"
#include "second_user.h"

using namespace coconet;
using jit::TuningFile;
using test::read_file;
using OnDisk = TuningFile::OnDisk;
namespace fs = std::filesystem;

namespace {

/// Requires that the test case `tag`, in a process of its own, leaves one choice in its tuning
/// file.
void require_one_choice(const char* tag, const std::string& environment = "") {
  const test::ScratchDirectory scratch;
  const fs::path file = scratch.path() / "tuning.json";
  (void)test::require_exit(
      test::run_test_case(tag, environment + "COCONET_TUNE_FILE=" + file.string()));
  const TuningFile kept = jit::parse_tuning(read_file(file));
  REQUIRE(kept.programs.size() == 1);
  CHECK(kept.programs[0].choices.size() == 1);
}

struct Store {
  test::ScratchDirectory scratch;
  World world = World::self();
  jit::Comm& comm = jit::comm_of(world);
  const fs::path file = scratch.path() / "tuning.json";
  Config config = comm.config();

  Store() { config.tune_file = file; }
  [[nodiscard]] TuningFile read() { return jit::read_tuning(comm, jit::platform_of(comm), config); }
  void write(TuningFile& tuning) { jit::write_tuning(comm, tuning, config); }
};

}  // namespace

TEST_CASE("a tuning file that is missing, damaged, unreadable or none is told apart") {
  Store store;
  TuningFile tuning = store.read();
  CHECK(tuning.on_disk == OnDisk::nothing);
  CHECK(tuning.problem.empty());
  std::ofstream(store.file).flush();
  tuning = store.read();
  CHECK(tuning.on_disk == OnDisk::damaged);
  CHECK(tuning.problem == "it is empty");
  std::ofstream(store.file) << R"({"coconet_tuning": 1})";
  tuning = store.read();
  CHECK(tuning.on_disk == OnDisk::damaged);
  CHECK_THAT(tuning.problem, Catch::Contains("the key 'library' is missing"));
  fs::remove(store.file);
  REQUIRE(mkfifo(store.file.c_str(), 0600) == 0);
  tuning = store.read();
  CHECK(tuning.on_disk == OnDisk::nothing);
  CHECK(tuning.problem == "it cannot be read: it is a pipe, and only files are read");
  fs::remove(store.file);
  tuning = store.read();
  store.write(tuning);
  CHECK(store.read().on_disk == OnDisk::replaceable);
  CHECK(store.read().problem.empty());
  REQUIRE(chmod(store.file.c_str(), 0) == 0);
  REQUIRE(chmod(store.scratch.path().c_str(), 0755) == 0);
  const test::AsNobody other;
  tuning = store.read();
  CHECK(tuning.on_disk == OnDisk::unreadable);
  CHECK(refusal<BackendError>([&] { store.write(tuning); }) ==
        "Cannot replace the file '" + store.file.string() +
            "' of COCONET_TUNE_FILE: it cannot be read: Permission denied, and what is in it would "
            "be lost.");
}

TEST_CASE("a damaged tuning file is replaced, and what was in it stays beside it") {
  Store store;
  fs::create_symlink("real.json", store.file);
  for (const std::string damage : {"{\"coconet_tuning\": 1", "no JSON"}) {
    std::ofstream(store.scratch.path() / "real.json") << damage;
    TuningFile tuning = store.read();
    store.write(tuning);
    store.write(tuning);  // which is no longer damaged
    CHECK(store.read().on_disk == OnDisk::replaceable);
  }
  CHECK(fs::is_symlink(store.file));
  CHECK(read_file(store.file.string() + ".damaged-1") == "{\"coconet_tuning\": 1");
  CHECK(read_file(store.file.string() + ".damaged-2") == "no JSON");
  CHECK(test::files_in(store.scratch.path()) == 4);
}

TEST_CASE("a measurement of the machine that is interrupted is kept, and the next one goes on") {
  const World world = World::self();
  TuningFile file;
  file.library = "1";
  file.device = "this";
  int asked = 0, kept = 0, most = 4;
  const jit::Measuring measuring{[&](TuningFile& now) {
                                   ++kept;
                                   CHECK(now.begun.contains(1));
                                 },
                                 [&] { return asked++ == most; }};
  REQUIRE_FALSE(jit::measure_machine(world, file, measuring));
  CHECK(file.machines.empty());
  REQUIRE(file.begun.contains(1));
  // The time of a launch takes two measurements.
  const double launch_us = file.begun[1].launch_us;
  CHECK(launch_us > 0);
  CHECK(file.begun[1].memory.size() == 2);
  CHECK(kept == 3);
  const std::string json = jit::to_json(file);
  file = jit::parse_tuning(json);
  CHECK(jit::to_json(file) == json);
  asked = 0;
  most = 1;
  REQUIRE_FALSE(jit::measure_machine(world, file, measuring));
  CHECK(file.begun[1].memory.size() == 3);
  CHECK(file.begun[1].launch_us == launch_us);
  CHECK(kept == 4);
}

TEST_CASE("tunes one size and dies", "[.][tunes_one_size_and_dies]") {
  struct Death {};
  const World world = World::self();
  bool has_finished_one = false;
  jit::TuneOptions options{.knobs = false, .pairs = 3};
  options.cluster = sched::load_cluster("host-2rank");
  options.cluster->ranks_per_node = 1;
  options.finished_size = [&](const jit::Tuned&) { has_finished_one = true; };
  options.progress = [&](const jit::TuneOptions::Progress&) {
    if (has_finished_one) throw Death();
  };
  CHECK_THROWS_AS(jit::tune_and_keep(programs::sgd(Mesh::over(world)), world,
                                     {{{"n", 64}}, {{"n", 5000}}}, options),
                  Death);
}

TEST_CASE("what is found at a size is kept before the next one is measured") {
  require_one_choice("tunes_one_size_and_dies");
}

TEST_CASE("a machine that was measured three months ago is measured again") {
  const World world = World::self();
  jit::Comm& comm = jit::comm_of(world);
  sched::Cluster machine = sched::load_cluster("host-2rank");
  CHECK_FALSE(jit::is_outdated(comm, machine));
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  machine.measured.emplace();
  for (const int days : {0, 80, 100, 10000}) {
    machine.measured->on = sched::to_string(today - std::chrono::days(days));
    CHECK(jit::is_outdated(comm, machine) == (days > 90));
  }
}

TEST_CASE("a machine that is measured again stays as it was until that is done") {
  const World world = World::self({.cores = 1});
  TuningFile file;
  file.machines[1] = sched::load_cluster("host-2rank");
  file.machines[1].ranks_per_node = 1;
  const std::string before = jit::to_json(file);
  int asked = 0, kept = 0;
  REQUIRE_FALSE(jit::measure_machine(world, file,
                                     {[&](TuningFile&) { ++kept; }, [&] { return asked++ == 3; }}));
  CHECK(jit::to_json(file) == before);
  CHECK(kept == 0);
  // With other cores of a rank it is another machine.
  CHECK(file.machine(1, 1) != nullptr);
  CHECK(file.machine(1, 2) == nullptr);
}

TEST_CASE("with COCONET_TUNE=on a step is tuned in a world of a Bootstrap, too") {
  if (!test::runs_all()) return;  // many kernels are compiled
  require_one_choice("tunes-in-a-bootstrap", "COCONET_TUNE=on COCONET_TUNE_S=1000 ");
}
