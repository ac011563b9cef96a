// File systems that refuse: the result is right, from memory, after one warning.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstring>

#include "cache/failing_calls.h"
#include "cache/processes.h"
#include "cache/samples.h"
#include "captured_stderr.h"
#include "second_user.h"

using namespace coconet::jit;
using namespace coconet::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr const char* instead =
    ". Kernels are compiled again in every process; COCONET_CACHE_DIR names another directory.";

struct Refused : Place {
  /// Obtains `count` keys twice in `where`. Says "right" or "wrong", how many were made, and what
  /// was printed.
  [[nodiscard]] std::string outcome(const fs::path& where, int count = 3) const {
    const CapturedStderr printed;
    int made = 0;
    bool right = true;
    {
      KernelCache cache(in_directory(where));
      for (int i = 0; i < 2 * count; ++i) {
        const CacheKey own = key_of("kernel " + std::to_string(i / 2));
        right = right && obtain_one(cache, own, recipe_of(binary, made), 10s).binary == binary;
      }
      right = right && cache.events().corrupt == 0;
    }
    return std::string(right ? "right" : "wrong") + ", made " + std::to_string(made) + "\n" +
           printed.text();
  }
  /// That where `call` fails as FailingCalls says.
  [[nodiscard]] std::string outcome_with(SystemCall call, int error, const fs::path& where,
                                         std::size_t room = 0) const {
    const FailingCalls failing(call, error, room);
    return outcome(where);
  }
};

std::string lines_of(const std::string& text) {
  return std::to_string(std::count(text.begin(), text.end(), '\n') - 1) + " warnings";
}

/// Checks that the results were right, made so often, with one warning, which says `sentence`.
void check_warned_once(const std::string& outcome, int made, const std::string& sentence) {
  INFO(outcome);
  CHECK_THAT(outcome, Catch::StartsWith("right, made " + std::to_string(made) + "\n") &&
                          Catch::Contains(sentence));
  CHECK(lines_of(outcome) == "1 warnings");
}

// A mount that nobody else sees, in a forked process. Empty, or what could not be done.
std::string with_own_mounts() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return "cannot unshare";
  if (user != 0) {
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", std::to_string(user) + " " + std::to_string(user) + " 1");
    write_file("/proc/self/gid_map", std::to_string(group) + " " + std::to_string(group) + " 1");
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return "cannot make mounts private";
  return "";
}

std::string mount_small_disk(const fs::path& where) {
  if (std::string problem = with_own_mounts(); !problem.empty()) return problem;
  fs::create_directories(where);
  if (mount("none", where.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) return "cannot mount";
  return "";
}

std::string mount_read_only(const fs::path& where) {
  if (std::string problem = with_own_mounts(); !problem.empty()) return problem;
  if (mount(where.c_str(), where.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
      mount(nullptr, where.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0)
    return "cannot mount";
  return "";
}

/// `body` in a process that is not root's, with `owned` given to its user.
std::string as_nobody(const std::vector<fs::path>& owned,
                      const std::function<std::string()>& body) {
  const bool root = can_be_nobody();
  for (const fs::path& path : owned) {
    if (root && lchown(path.c_str(), nobody, nobody) != 0) return "cannot give it away";
  }
  return in_child(
      [&] { return root && !become_nobody() ? std::string("cannot become nobody") : body(); });
}

}  // namespace

TEST_CASE_METHOD(Refused, "a disk that becomes full at any byte is survived with one warning") {
  const std::size_t entry_bytes = encode_entry(key_of("kernel 0"), binary).size();
  for (const int error : {ENOSPC, EDQUOT}) {
    for (std::size_t room = 0; room < entry_bytes; ++room) {
      const fs::path where = scratch.path() / (std::to_string(error) + "-" + std::to_string(room));
      const std::string outcome = outcome_with(SystemCall::write, error, where, room);
      check_warned_once(outcome, 6,
                        "The kernel cache in '" + where.string() +
                            "' does not work: cannot write: " + std::strerror(error) + instead);
      REQUIRE(entries_under(where) == 0);
      REQUIRE(temporaries_under(where) == 0);
    }
  }
  // Room for the first entry, not for the stats.
  for (std::size_t room = entry_bytes; room < entry_bytes + 48; ++room) {
    const fs::path where = scratch.path() / std::to_string(room);
    const std::string outcome = outcome_with(SystemCall::write, ENOSPC, where, room);
    INFO(room << " bytes: " << outcome);
    REQUIRE_THAT(outcome, Catch::StartsWith("right, made 5\n"));
    REQUIRE(lines_of(outcome) == "1 warnings");
    REQUIRE(entries_under(where) == 1);
    // With room again all is well.
    REQUIRE(this->outcome(where) == "right, made 2\n");
  }
}

TEST_CASE_METHOD(Refused, "a small file system that is full is survived with one warning") {
  const std::string outcome = in_child([&]() -> std::string {
    if (std::string problem = mount_small_disk(directory); !problem.empty())
      return "skipped: " + problem;
    binary.payload = bytes_for("large", 30'000);
    std::string said = this->outcome(directory, 8);
    if (temporaries_under(directory) != 0) said += "temporaries are left\n";
    const std::size_t entries = entries_under(directory);
    if (entries == 0 || entries > 2) said += std::to_string(entries) + " entries\n";
    // What is there is still found.
    int made = 0;
    const CapturedStderr printed;
    KernelCache cache(in_directory(directory));
    for (int i = 0; i < 8; ++i)
      (void)obtain_one(cache, key_of("kernel " + std::to_string(i)), recipe_of(binary, made), 10s);
    if (made != 8 - static_cast<int>(entries)) said += "what is there is not found\n";
    return said;
  });
  if (outcome.starts_with("skipped")) {
    WARN("no small file system here, " << outcome);
    return;
  }
  INFO(outcome);
  CHECK_THAT(outcome, Catch::StartsWith("right, made "));
  CHECK(lines_of(outcome) == "1 warnings");
  CHECK_THAT(outcome, Catch::Contains("' does not work: cannot write: No space left on device" +
                                      std::string(instead)));
}

TEST_CASE_METHOD(Refused, "a read-only file system is read: hits, one warning, nothing removed") {
  const CacheKey old = key_of("kernel 0");
  const CacheKey damaged = key_of("kernel 1");
  DiskCache(directory, CacheMode::read_write).publish(old, binary);  // its time is a day ago
  DiskCache(directory, CacheMode::read_write).publish(damaged, binary);
  write_file(path_of(damaged), "damaged");
  const std::string outcome = in_child([&]() -> std::string {
    if (std::string problem = mount_read_only(directory); !problem.empty())
      return "skipped: " + problem;
    const CapturedStderr printed;
    int made = 0;
    KernelCache cache(in_directory(directory));
    std::string said;
    for (int i = 0; i < 2; ++i) {
      if (obtain_one(cache, old, recipe_of(binary, made), 10s).was_made) said += "no hit\n";
      if (obtain_one(cache, damaged, recipe_of(binary, made), 10s).binary != binary)
        said += "wrong\n";
      if (obtain_one(cache, key, recipe_of(binary, made), 10s).binary != binary) said += "wrong\n";
    }
    return said + "made " + std::to_string(made) + "\n" + printed.text();
  });
  CHECK(read_file(path_of(damaged)) == "damaged");
  CHECK(entries_under(directory) == 2);
  if (outcome.starts_with("skipped")) {
    WARN("no read-only file system here, " << outcome);
    return;
  }
  INFO(outcome);
  CHECK_THAT(outcome, Catch::StartsWith("made 4\n"));
  CHECK_THAT(outcome, Catch::Contains("' does not work: cannot ") &&
                          Catch::Contains("Read-only file system" + std::string(instead)));
  // The damaged entry is met twice, and the refusal is told once.
  CHECK(lines_of(outcome) == "3 warnings");
}

TEST_CASE_METHOD(Refused, "a directory that its owner may not write is read, with one warning") {
  DiskCache(directory, CacheMode::read_write).publish(key_of("kernel 0"), binary);
  const fs::path folder = path_of(key_of("kernel 0")).parent_path();
  for (const fs::path& closed : {folder, directory}) REQUIRE(chmod(closed.c_str(), 0500) == 0);
  const std::vector<fs::path> owned{
      scratch.path(), directory.parent_path(), directory,
      folder,         directory / "ledger",    path_of(key_of("kernel 0"))};
  const std::string outcome = as_nobody(owned, [&] { return this->outcome(directory); });
  for (const fs::path& closed : {folder, directory}) (void)chmod(closed.c_str(), 0700);
  check_warned_once(outcome, 4,
                    "The kernel cache in '" + directory.string() +
                        "' does not work: cannot create the directory '");
  CHECK_THAT(outcome, Catch::Contains("Permission denied" + std::string(instead)));
  CHECK(entries_under(directory) == 1);
}

TEST_CASE_METHOD(Refused, "an entry that may not be read is left alone") {
  const fs::path path = path_of(key_of("kernel 0"));
  DiskCache(directory, CacheMode::read_write).publish(key_of("kernel 0"), binary);
  REQUIRE(chmod(path.c_str(), 0) == 0);
  const std::vector<fs::path> owned{scratch.path(),     directory.parent_path(), directory,
                                    path.parent_path(), directory / "ledger",    path};
  const std::string outcome = as_nobody(owned, [&] { return this->outcome(directory, 1); });
  check_warned_once(outcome, 2, "cannot read '" + path.string() + "': Permission denied");
  CHECK(fs::file_size(path) == encode_entry(key_of("kernel 0"), binary).size());
}

TEST_CASE_METHOD(Refused, "a home that cannot be made, or is none, is survived with one warning") {
  SECTION("none") {
    const std::string outcome = this->outcome({});
    check_warned_once(outcome, 6,
                      "There is no directory for the kernel cache: none of "
                      "COCONET_CACHE_DIR, XDG_CACHE_HOME and HOME names one. Kernels are "
                      "compiled again in every process.");
  }
  SECTION("one that is not there, in a directory that cannot be written") {
    REQUIRE(chmod(scratch.path().c_str(), 0500) == 0);
    const fs::path home = scratch.path() / "home" / ".cache" / "coconet-jit";
    const std::string outcome = as_nobody({scratch.path()}, [&] { return this->outcome(home); });
    (void)chmod(scratch.path().c_str(), 0700);
    check_warned_once(outcome, 6,
                      "The kernel cache in '" + home.string() +
                          "' does not work: cannot create the directory '" +
                          (scratch.path() / "home").string() + "': Permission denied" + instead);
  }
}

TEST_CASE_METHOD(Refused, "a file where the directory should be is survived with one warning") {
  const fs::path file = scratch.path() / "file";
  write_file(file, "somebody's");
  for (const fs::path& where : {file, file / "cache"}) {
    const std::string outcome = this->outcome(where);
    check_warned_once(outcome, 6,
                      "The kernel cache in '" + where.string() +
                          "' does not work: cannot open the directory '" + where.string() +
                          "': Not a directory" + instead);
  }
  CHECK(read_file(file) == "somebody's");
}

TEST_CASE_METHOD(Refused, "a folder of entries that is a link is not followed") {
  const CacheKey own = key_of("kernel 0");
  DiskCache(directory, CacheMode::read_write).publish(own, {"a stranger's code", ""});
  const fs::path folder = path_of(own).parent_path();
  const fs::path elsewhere = scratch.path() / "elsewhere";
  fs::rename(folder, elsewhere);
  fs::create_directory_symlink(elsewhere, folder);
  const std::string outcome = this->outcome(directory, 1);
  check_warned_once(outcome, 2,
                    "The kernel cache in '" + directory.string() +
                        "' does not work: cannot read '" + folder.string() + "': Not a directory" +
                        instead);
  CHECK(fs::is_symlink(folder));
  CHECK(entries_under(elsewhere) == 1);
  CHECK(files_under(elsewhere) == 1);
}

TEST_CASE_METHOD(Refused,
                 "a file system without locks costs no more than double work, and says so") {
  for (const int error : {ENOLCK, EOPNOTSUPP, EINVAL, ENOSYS}) {
    const fs::path where = scratch.path() / std::to_string(error);
    const std::string outcome = outcome_with(SystemCall::lock, error, where);
    check_warned_once(outcome, 3,
                      "The kernel cache in '" + where.string() +
                          "' has no locks (cannot lock 'ledger': " + std::strerror(error) +
                          "), so that several processes may compile the same "
                          "kernel.");
    CHECK(entries_under(where) == 3);
  }
}

TEST_CASE_METHOD(Refused, "without locks the bounds are kept all the same") {
  const FailingCalls without(SystemCall::lock, ENOLCK);
  const CapturedStderr printed;
  CacheSettings settings = in_directory(directory);
  settings.limits.files = 10;
  {
    KernelCache cache(settings);
    int made = 0;
    for (int i = 0; i < 100; ++i)
      (void)obtain_one(cache, key_of(std::to_string(i)), recipe_of(binary, made), 10s);
  }
  CHECK(entries_under(directory) <= 10);
  CHECK(printed.count("\n") == 1);
}

TEST_CASE_METHOD(Refused, "where renaming always replaces, the entry that is there stays") {
  const FailingCalls network(SystemCall::rename_without_replacing, EINVAL);
  CHECK(outcome(directory) == "right, made 3\n");
  DiskCache cache(directory, CacheMode::read_write);
  CHECK_FALSE(cache.publish(key_of("kernel 0"), {"later", ""}));
  CHECK(cache.find(key_of("kernel 0")) == binary);
  CHECK(cache.publish(key_of("another kernel"), binary));
  CHECK(cache.find(key_of("another kernel")) == binary);
  CHECK(temporaries_under(directory) == 0);
}

TEST_CASE_METHOD(Refused, "what cannot be synced is not stored") {
  const std::string outcome = outcome_with(SystemCall::sync, EIO, directory);
  check_warned_once(outcome, 6, "cannot sync");
  CHECK_THAT(outcome, Catch::Contains("Input/output error"));
  CHECK(entries_under(directory) == 0);
  CHECK(temporaries_under(directory) == 0);
}
