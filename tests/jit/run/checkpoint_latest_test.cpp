// Which checkpoint of a directory is the newest: one that is damaged, or that nobody can read, is
// not the same as none.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "captured_stderr.h"
#include "child_process.h"
#include "jit/checkpoint/manifest.h"
#include "jit/run/checkpoint_checks.h"
#include "refusal.h"
#include "second_user.h"

using namespace coconet;
using namespace coconet::test;
namespace fs = std::filesystem;

namespace {

/// So many descriptors more can be opened while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDIN_FILENO);
    close(next);
    const rlimit few{static_cast<rlim_t>(next) + more, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

struct SavedNumbers {
  ScratchDirectory scratch;
  World world = World::self();
  Executable step = compile_number(world);
  const fs::path directory = scratch.path() / "saved";

  explicit SavedNumbers(int count) {
    for (int number = 1; number <= count; ++number) save_number(step, directory, number);
  }
  [[nodiscard]] fs::path manifest(int number) const {
    return directory / std::to_string(number) / "checkpoint.json";
  }
  [[nodiscard]] std::string latest(const LoadOptions& options = {}) {
    const auto found = step.load_latest(directory, options);
    return found ? found->metadata.at("n") : "none";
  }
  [[nodiscard]] std::string refused(const fs::path& path, const LoadOptions& options = {}) {
    return refusal<CheckpointError>([&] { (void)step.load_latest(path, options); });
  }
};

}  // namespace

TEST_CASE("any damage to the newest manifest is told, and the checkpoint before is loaded") {
  SavedNumbers saved(2);
  const std::string bytes = read_file(saved.manifest(2));
  std::vector<std::string> damaged{"", "{", bytes.substr(0, bytes.size() / 2), bytes + " "};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    damaged.push_back(bytes);
    damaged.back()[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
  }
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    write_bytes_to(saved.manifest(2), damaged[i]);
    const jit::CapturedStderr log;
    const std::string found = saved.latest();
    if (found == "1" &&
        log.count("the checkpoint '" + (saved.directory / "2").string() + "' is left out: '" +
                  saved.manifest(2).string() + "' is damaged at byte ") == 1)
      continue;
    FAIL("damage " << i << ": " << found << " is loaded, and the log is: " << log.text());
  }
}

TEST_CASE("where all manifests are damaged, nothing begins anew") {
  SavedNumbers saved(2);
  write_bytes_to(saved.manifest(1), "");
  fs::remove(saved.manifest(2));
  for (const bool may_be_first_start : {false, true}) {
    CHECK(saved.refused(saved.directory, {.may_be_first_start = may_be_first_start}) ==
          "Every checkpoint in '" + saved.directory.string() +
              "' is damaged or closed to this user; of the last one, '" +
              saved.manifest(2).string() + "' is damaged at byte 0: it is missing.");
  }
}

TEST_CASE(
    "a checkpoint that cannot be looked at is an error, and not one that is damaged or none") {
  SavedNumbers saved(2);
  for (const rlim_t more : {0, 1, 2}) {
    const FewDescriptors few(more);
    CHECK_THAT(saved.refused(saved.directory),
               Catch::StartsWith("Cannot ") && Catch::EndsWith("': Too many open files."));
  }
  CHECK(saved.latest() == "2");
  REQUIRE(chmod(saved.scratch.path().c_str(), 0755) == 0);
  REQUIRE(chmod(saved.manifest(2).c_str(), 0) == 0);
  {
    const AsNobody other;
    CHECK(saved.refused(saved.directory) ==
          "Cannot open '" + saved.manifest(2).string() + "': Permission denied.");
    CHECK(saved.refused(saved.directory / "2") ==
          "Cannot open '" + saved.manifest(2).string() + "': Permission denied.");
  }
  if (lacks_root()) return;
  REQUIRE(chmod((saved.directory / "2").c_str(), 0700) == 0);
  const jit::CapturedStderr log;
  {
    const AsNobody other;
    CHECK(saved.latest() == "1");
  }
  CHECK(log.count((saved.directory / "2").string() +
                  "' belongs to another user, and is closed to this one") == 1);
  REQUIRE(chmod((saved.directory / "1").c_str(), 0700) == 0);
  const AsNobody other;
  CHECK_THAT(saved.refused(saved.directory),
             Catch::Contains("' is damaged or closed to this user; of the last one, '" +
                             (saved.directory / "2").string() + "' belongs to another user"));
}

TEST_CASE("a checkpoint is loaded where it is named instead of its directory") {
  SavedNumbers saved(2);
  CHECK(saved.step.load_latest(saved.directory / "1")->metadata.at("n") == "1");
  fs::create_directory_symlink(saved.directory / "1", saved.scratch.path() / "link");
  CHECK(saved.step.load_latest(saved.scratch.path() / "link")->metadata.at("n") == "1");
  write_bytes_to(saved.manifest(1), "");
  CHECK_THAT(saved.refused(saved.directory / "1"),
             Catch::StartsWith("'" + saved.manifest(1).string() + "' is damaged at byte 0"));
}

TEST_CASE("a place without a checkpoint is not one with a damaged one") {
  SavedNumbers saved(1);
  for (const fs::path& path : {saved.directory, saved.directory / "gone"}) {
    CHECK(refusal<CheckpointError>([&] { (void)saved.step.load(path); }) ==
          "There is no checkpoint at '" + path.string() +
              "'; load takes the directory of one, and load_latest that of several.");
  }
}

TEST_CASE("nothing to load is told, and a directory that is missing refused but at a first start") {
  SavedNumbers saved(0);
  const LoadOptions first{.may_be_first_start = true};
  CHECK(saved.refused(saved.directory) ==
        "There is no directory '" + saved.directory.string() +
            "' to load a checkpoint from; where this may be the first start, say so: "
            "LoadOptions::may_be_first_start, or --may-be-first-start of coconet run.");
  {
    const jit::CapturedStderr log;
    CHECK(saved.latest(first) == "none");
    fs::create_directories(saved.directory / "notes");
    CHECK(saved.latest() == "none");
    CHECK(log.count("there is no checkpoint in '" + saved.directory.string() +
                    "': nothing is loaded") == 2);
  }
  write_bytes_to(saved.scratch.path() / "file", "");
  CHECK(saved.refused(saved.scratch.path() / "file") ==
        "Cannot read the directory '" + (saved.scratch.path() / "file").string() +
            "': Not a directory.");
}

TEST_CASE("a symbolic link is neither counted nor followed nor removed") {
  SavedNumbers saved(2);
  fs::create_directory_symlink("2", saved.directory / "the-best");
  fs::create_directory_symlink("gone", saved.directory / "dangling");
  save_number(saved.step, saved.directory, 3, 2);
  CHECK(names_in(saved.directory) == std::vector<std::string>{"2", "3", "dangling", "the-best"});
  fs::create_directory(saved.scratch.path() / "links");
  fs::create_directory_symlink(saved.directory / "3", saved.scratch.path() / "links/3");
  CHECK_FALSE(saved.step.load_latest(saved.scratch.path() / "links"));
}

TEST_CASE("a save over a symbolic link replaces what it leads to") {
  SavedNumbers saved(2);
  fs::create_directory(saved.scratch.path() / "links");
  fs::create_directory_symlink(saved.directory / "1", saved.scratch.path() / "links/5");
  save_number(saved.step, saved.scratch.path() / "links", 5, 1);
  CHECK(fs::is_symlink(saved.scratch.path() / "links/5"));
  CHECK(names_in(saved.directory) == std::vector<std::string>{"1"});
  CHECK(saved.latest() == "5");
  fs::create_directory_symlink("../saved/6/", saved.scratch.path() / "links/6");
  save_number(saved.step, saved.scratch.path() / "links", 6);
  CHECK(names_in(saved.directory) == std::vector<std::string>{"1", "6"});
  fs::create_directory_symlink("loop", saved.scratch.path() / "links/7");
  fs::create_directory_symlink("7", saved.scratch.path() / "links/loop");
  CHECK_THAT(
      refusal<CheckpointError>([&] { save_number(saved.step, saved.scratch.path() / "links", 7); }),
      Catch::StartsWith("Cannot follow the symbolic link '"));
}

TEST_CASE("a save over a damaged checkpoint puts that aside") {
  SavedNumbers saved(2);
  write_bytes_to(saved.manifest(2), "");
  const fs::path part = saved.directory / "2/rank-00000.safetensors";
  const std::string bytes = read_file(part);
  const jit::CapturedStderr log;
  save_number(saved.step, saved.directory, 2, 2);
  CHECK(names_in(saved.directory) == std::vector<std::string>{"1", "2", "2.damaged-1"});
  CHECK(read_file(saved.directory / "2.damaged-1/rank-00000.safetensors") == bytes);
  CHECK(log.count("what was at '" + (saved.directory / "2").string() +
                  "' is damaged, and is now '" + (saved.directory / "2.damaged-1").string() +
                  "': '") == 1);
  fs::resize_file(part, bytes.size() - 1);
  save_number(saved.step, saved.directory, 2, 1);
  CHECK(names_in(saved.directory) == std::vector<std::string>{"2", "2.damaged-1", "2.damaged-2"});
  CHECK(saved.latest() == "2");
}

TEST_CASE("after the largest sequence there is no newer checkpoint, and a larger one is damage") {
  SavedNumbers saved(2);
  const std::string text = read_file(saved.manifest(2));
  const auto give = [&](std::uint64_t sequence) {
    write_bytes_to(
        saved.manifest(2),
        signed_again(replaced(text, "\"sequence\":2", "\"sequence\":" + std::to_string(sequence))));
  };
  give(jit::most_sequence);
  CHECK(saved.latest() == "2");
  CHECK(refusal<CheckpointError>([&] { save_number(saved.step, saved.directory, 3, 1); }) ==
        "The checkpoint '" + (saved.directory / "2").string() +
            "' has the sequence 1152921504606846976, the largest that there can be, so that none "
            "can be newer; move it to another directory.");
  CHECK(names_in(saved.directory) == std::vector<std::string>{"1", "2"});
  give(jit::most_sequence + 1);
  save_number(saved.step, saved.directory, 3, 1);
  CHECK(names_in(saved.directory) == std::vector<std::string>{"2", "3"});
  CHECK(saved.latest() == "3");
  give(jit::most_sequence - 1);
  save_number(saved.step, saved.directory, 4, 2);
  CHECK(names_in(saved.directory) == std::vector<std::string>{"2", "4"});
  CHECK(saved.latest() == "4");
}
