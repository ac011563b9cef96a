// Trust: which directories are used, and what is said about those that are not.
#include "jit/cache/directory.h"

#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <set>

#include "cache/samples.h"
#include "captured_stderr.h"
#include "jit/cache/inspect.h"

using namespace coconet::jit;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::string refusal_of(const fs::path& path, Ownership ownership) {
  try {
    return CacheDirectory::open(path, ownership) ? "accepted" : "not there";
  } catch (const Distrust& reason) {
    return reason.what();
  }
}

std::string refusal_with_mode(const fs::path& path, mode_t mode, Ownership ownership) {
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return refusal_of(path, ownership);
}

/// A directory of somebody else: the root's, or that of nobody.
struct Foreign {
  explicit Foreign(const fs::path& scratch) {
    if (geteuid() != 0) return;
    path = scratch / "foreign";
    fs::create_directory(path);
    chmod(path.c_str(), 0700);
    REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
  }
  fs::path path = "/usr";
};

/// A file as stat() describes it.
struct stat file_of(uid_t owner, mode_t mode) {
  struct stat status {};
  status.st_uid = owner;
  status.st_mode = S_IFREG | mode;
  return status;
}

}  // namespace

TEST_CASE_METHOD(Place, "the directory that is written is open to its owner only") {
  CHECK(refusal_of(directory, Ownership::mine) == "not there");
  fs::create_directories(directory);
  const std::string it = "'" + directory.string() + "'";
  CHECK(refusal_with_mode(directory, 0700, Ownership::mine) == "accepted");
  CHECK(refusal_with_mode(directory, 0500, Ownership::mine) == "accepted");
  for (const char* const mode : {"0777", "0770", "0755", "0750", "0701"}) {
    CHECK(refusal_with_mode(directory, static_cast<mode_t>(std::stoi(mode, nullptr, 8)),
                            Ownership::mine) ==
          it + " is open to other users (its mode is " + mode +
              "), and what runs as code must be in a directory of one's own; chmod 700 " + it);
  }
  CHECK(refusal_with_mode(directory, 01777, Ownership::mine) ==
        it + " is open to other users (its mode is 01777), and what runs as code must be in a "
             "directory of one's own; name one of your own below it");
}

TEST_CASE_METHOD(Place, "in a directory that is only read nobody else can write") {
  fs::create_directories(directory);
  const std::string it = "'" + directory.string() + "'";
  for (const mode_t mode : {0700U, 0755U, 0555U})
    CHECK(refusal_with_mode(directory, mode, Ownership::vetted) == "accepted");
  for (const char* const mode : {"0777", "0775", "0757"}) {
    CHECK(refusal_with_mode(directory, static_cast<mode_t>(std::stoi(mode, nullptr, 8)),
                            Ownership::vetted) == "other users may write in " + it +
                                                      " (its mode is " + mode +
                                                      "), and so put code there; chmod go-w " + it);
  }
  CHECK(refusal_with_mode(directory, 01777, Ownership::vetted) ==
        "other users may write in " + it +
            " (its mode is 01777), and so put code there; name one of your own below it");
}

TEST_CASE_METHOD(Place, "a directory of another user is refused, and root's may be read") {
  const Foreign foreign(scratch.path());
  const std::string refused = refusal_of(foreign.path, Ownership::mine);
  CHECK_THAT(refused, Catch::StartsWith("'" + foreign.path.string() + "' belongs to user "));
  CHECK_THAT(refused, Catch::Contains(", and kernels found there would run as user ") &&
                          Catch::Contains("; it must belong to user "));
  CHECK(refusal_of("/usr", Ownership::vetted) == "accepted");
  if (geteuid() == 0) {
    CHECK_THAT(refusal_of(foreign.path, Ownership::vetted), Catch::EndsWith(" or to root"));
  }
}

TEST_CASE_METHOD(Place, "a folder of entries that others may write in is not gone into") {
  KernelCache cache(in_directory(directory));
  cache.publish(key, binary);
  const fs::path folder = path_of(key).parent_path();
  fs::permissions(folder, fs::perms(0777));
  const CapturedStderr printed;
  CHECK_FALSE(cache.find(key));
  cache.publish(key, binary);
  CHECK(printed.count("\n") == 1);
  CHECK(printed.count("does not work: cannot read '" + folder.string() +
                      "': Operation not permitted") == 1);
  const auto unusable = unusable_folders(*CacheDirectory::open(directory, Ownership::mine));
  REQUIRE(unusable.size() == 1);
  CHECK(unusable.front().second == "other users may write to it");
  fs::permissions(folder, fs::perms(0700));
  CHECK(cache.find(key) == binary);
}

TEST_CASE_METHOD(Place, "a link to a directory is followed, and what it leads to is looked at") {
  fs::create_directories(directory);
  const fs::path link = scratch.path() / "link";
  fs::create_directory_symlink(directory, link);
  CHECK(refusal_with_mode(link, 0700, Ownership::mine) == "accepted");
  CHECK_THAT(refusal_with_mode(link, 0777, Ownership::mine), Catch::Contains("its mode is 0777"));
  fs::permissions(directory, fs::perms::owner_all);
  CHECK(refusal_of(link / "", Ownership::mine) == "accepted");
  if (geteuid() != 0) return;
  REQUIRE(lchown(link.c_str(), 65534, 65534) == 0);
  for (const fs::path& path : {link, link / ""}) {
    CHECK(refusal_of(path, Ownership::mine) ==
          "'" + link.string() +
              "' is a symbolic link of user nobody, who may have it lead anywhere; name the "
              "directory itself");
  }
}

TEST_CASE_METHOD(Place, "folders and entries are made for the owner only, whatever the umask") {
  const mode_t before = umask(0);
  DiskCache(directory, CacheMode::read_write).publish(key, binary);
  umask(before);
  const fs::path path = path_of(key);
  for (const fs::path& folder : {directory.parent_path(), directory, path.parent_path()})
    CHECK(fs::status(folder).permissions() == fs::perms::owner_all);
  for (const fs::path& file : {path, directory / "ledger"})
    CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE_METHOD(Place, "entries of others, or that others may write, are not loaded") {
  const uid_t me = geteuid();
  const uid_t other = me + 1;
  fs::create_directories(directory);
  REQUIRE(chmod(directory.c_str(), 0700) == 0);
  const auto mine = CacheDirectory::open(directory, Ownership::mine);
  const auto vetted = CacheDirectory::open(directory, Ownership::vetted);
  for (const auto& opened : {mine, vetted}) {
    CHECK(opened->distrusts(file_of(me, 0600)) == nullptr);
    CHECK(opened->distrusts(file_of(me, 0644)) == nullptr);
    CHECK(opened->distrusts(file_of(other, 0600)) == std::string("it belongs to another user"));
    CHECK(opened->distrusts(file_of(me, 0620)) == std::string("other users may write to it"));
    CHECK(opened->distrusts(file_of(me, 0602)) == std::string("other users may write to it"));
  }
  CHECK(vetted->distrusts(file_of(0, 0644)) == nullptr);
  if (me != 0) CHECK(mine->distrusts(file_of(0, 0644)) != nullptr);
}

TEST_CASE_METHOD(
    Place, "only what is named as an entry is listed, and links to folders are not followed") {
  DiskCache(directory, CacheMode::read_write).publish(key, binary);
  const std::string digits = hex(key.digest());
  const fs::path folder = directory / digits.substr(0, 2);
  write_file(folder / (digits.substr(2) + ".v1"), "of another format");
  write_file(folder / ".tmp-host-1-2", "");
  for (const char* const name : {"README.md", "x.v2", ".v2", ".tmp"}) write_file(folder / name, "");
  write_file(folder / (digits.substr(2) + ".v"), "");
  write_file(folder / (digits.substr(2) + ".v2x"), "");
  write_file(directory / "README.md", "");
  fs::create_directory(directory / "zz");
  fs::create_directory(scratch.path() / "elsewhere");
  write_file(scratch.path() / "elsewhere" / (digits.substr(2) + ".v2"), "");
  fs::create_directory_symlink(scratch.path() / "elsewhere",
                               directory / (digits.starts_with("00") ? "01" : "00"));
  std::set<std::string> entries;
  std::set<std::string> temporaries;
  CacheDirectory::open(directory, Ownership::mine)
      ->for_each(
          [&](int, const EntryFile& file) { entries.insert(file.digits() + file.name.substr(62)); },
          [&](int, const EntryFile& file) { temporaries.insert(file.name); });
  CHECK(entries == std::set<std::string>{digits + ".v1", digits + ".v2"});
  CHECK(temporaries == std::set<std::string>{".tmp-host-1-2"});
}

TEST_CASE_METHOD(Place,
                 "a directory that is not trusted is neither read nor written, with one warning") {
  int made = 0;
  const auto require_unused = [&](const fs::path& path, const std::string& sentence) {
    const CapturedStderr printed;
    KernelCache cache(in_directory(path));
    made = 0;
    for (int i = 0; i < 3; ++i)
      CHECK(obtain_one(cache, key, recipe_of(binary, made), 10s).binary == binary);
    CHECK(made == 3);
    CHECK(cache.id().empty());
    CHECK(printed.count("\n") == 1);
    CHECK(printed.count(sentence) == 1);
    CHECK(printed.count(". Kernels are compiled again in every process; COCONET_CACHE_DIR names "
                        "another directory.") == 1);
  };
  SECTION("writable by all, or by a group, with a good entry in it") {
    DiskCache(directory, CacheMode::read_write).publish(key, {"a stranger's code", ""});
    const std::string entry = read_file(path_of(key));
    for (const mode_t mode : {0777U, 0770U}) {
      REQUIRE(chmod(directory.c_str(), mode) == 0);
      require_unused(directory, "The kernel cache is not used: '" + directory.string() +
                                    "' is open to other users (its mode is 0");
      CHECK(read_file(path_of(key)) == entry);
      CHECK(entries_under(directory) == 1);
    }
  }
  SECTION("of another user") {
    const Foreign foreign(scratch.path());
    require_unused(foreign.path, "The kernel cache is not used: '" + foreign.path.string() +
                                     "' belongs to user ");
  }
}

TEST_CASE_METHOD(Place, "a directory of COCONET_CACHE_PATH that is not trusted is not read") {
  const fs::path site = scratch.path() / "site";
  DiskCache(site, CacheMode::read_write).publish(key, {"a stranger's code", ""});
  REQUIRE(chmod(site.c_str(), 0777) == 0);
  CacheSettings settings = in_directory(directory);
  settings.read_only = {site};
  KernelCache cache(settings);
  int made = 0;
  const CapturedStderr printed;
  CHECK(obtain_one(cache, key, recipe_of(binary, made), 10s).was_made);
  CHECK(printed.count("A directory of COCONET_CACHE_PATH is not used: other users may write in '" +
                      site.string() + "' (its mode is 0777), and so put code there; chmod go-w '" +
                      site.string() + "'.\n") == 1);
  CHECK_FALSE(obtain_one(cache, key, recipe_of(binary, made), 10s).was_made);
  CHECK(made == 1);
}
