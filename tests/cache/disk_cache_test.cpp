// One directory: what is published is found, by whom, and what is left on disk.
#include "jit/cache/disk_cache.h"

#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <atomic>

#include "cache/samples.h"
#include "captured_stderr.h"
#include "on_threads.h"

using namespace coconet::jit;
namespace fs = std::filesystem;

namespace {

FileTime time_of_file(const fs::path& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return time_of(status);
}

bool is_about(FileTime time, FileTime expected) {
  return time > expected - std::chrono::minutes(5) && time < expected + std::chrono::minutes(5);
}

}  // namespace

TEST_CASE_METHOD(Place, "what is published is found, by this and by another object") {
  const CapturedStderr printed;
  DiskCache cache(directory, CacheMode::read_write);
  CHECK_FALSE(cache.find(key));
  CHECK_FALSE(cache.contains(key));
  CHECK_FALSE(fs::exists(directory));
  cache.publish(key, binary);
  CHECK(cache.find(key) == binary);
  CHECK(cache.contains(key));
  CHECK(DiskCache(directory, CacheMode::read_only).find(key) == binary);
  CHECK_FALSE(cache.find(key_of("another")));
  cache.publish(key_of("nothing"), {});
  CHECK(cache.find(key_of("nothing")) == CachedBinary{});
  CHECK(entries_under(directory) == 2);
  CHECK(files_under(directory) == 3);  // and the stats
  CHECK(cache.corrupt() == 0);
  CHECK(printed.text().empty());
}

TEST_CASE_METHOD(Place, "an entry lies under the digits of its key's digest") {
  DiskCache cache(directory, CacheMode::read_write);
  cache.publish(key, binary);
  const std::string digits = hex(key.digest());
  CHECK(cache.path_of(key) == directory / digits.substr(0, 2) / (digits.substr(2) + ".v2"));
  CHECK(read_file(cache.path_of(key)) == encode_entry(key, binary));
}

TEST_CASE_METHOD(Place, "the entry that is there stays, and who comes later has lost") {
  DiskCache cache(directory, CacheMode::read_write);
  CHECK(cache.publish(key, binary));
  CHECK_FALSE(DiskCache(directory, CacheMode::read_write).publish(key, {"later", ""}));
  CHECK(cache.find(key) == binary);
  CHECK(temporaries_under(directory) == 0);
}

TEST_CASE_METHOD(Place, "a read-only cache reads, and writes nothing") {
  DiskCache(directory, CacheMode::read_write).publish(key, binary);
  const FileTime before = time_of_file(path_of(key));
  DiskCache reader(directory, CacheMode::read_only);
  CHECK(reader.find(key) == binary);
  CHECK(time_of_file(path_of(key)) == before);
  reader.publish(key_of("new"), binary);
  CHECK_FALSE(fs::exists(path_of(key_of("new"))));
  CHECK(reader.id().empty());
  CHECK_FALSE(reader.lock(key, Deadline::max()));
  DiskCache nowhere(scratch.path() / "nowhere", CacheMode::read_only);
  CHECK_FALSE(nowhere.find(key));
  nowhere.publish(key, binary);
  CHECK_FALSE(fs::exists(scratch.path() / "nowhere"));
}

TEST_CASE_METHOD(Place, "a cache that is off, or has no directory, does nothing") {
  DiskCache(directory, CacheMode::read_write).publish(key, binary);
  const CapturedStderr printed;
  for (DiskCache* const cache :
       {new DiskCache(directory, CacheMode::off), new DiskCache({}, CacheMode::read_write)}) {
    const std::unique_ptr<DiskCache> owner(cache);
    CHECK_FALSE(cache->find(key));
    CHECK_FALSE(cache->contains(key));
    cache->publish(key, binary);
    CHECK_FALSE(cache->lock(key, Deadline::max()));
    CHECK_FALSE(cache->lock_compiler(4, Deadline::max()));
    CHECK(cache->id().empty());
  }
  CHECK(printed.text().empty());
}

TEST_CASE_METHOD(Place, "a hit is noted in the entry's time, once a day") {
  DiskCache cache(directory, CacheMode::read_write);
  cache.publish(key, binary);
  const fs::path path = path_of(key);
  CHECK(is_about(time_of_file(path), time_now() - day));
  CHECK(cache.find(key));
  const FileTime first_hit = time_of_file(path);
  CHECK(is_about(first_hit, time_now()));
  CHECK(cache.find(key));
  CHECK(time_of_file(path) == first_hit);
  const OpenFile folder = open_folder(path.parent_path());
  REQUIRE(set_time(folder.number(), path.filename(), time_now() - std::chrono::hours(25)));
  CHECK(cache.find(key));
  CHECK(is_about(time_of_file(path), time_now()));
}

TEST_CASE_METHOD(Place, "a directory that somebody removes is made again") {
  DiskCache(directory, CacheMode::read_write).publish(key_of("first"), binary);  // and evicts
  DiskCache cache(directory, CacheMode::read_write);
  cache.publish(key, binary);
  const std::string id = cache.id();
  const CapturedStderr printed;
  fs::remove_all(directory);
  CHECK_FALSE(cache.find(key));
  cache.publish(key, binary);
  CHECK(cache.find(key) == binary);
  CHECK(cache.id() != id);
  CHECK(printed.text().empty());
}

TEST_CASE_METHOD(Place, "the directory has one name, through every path to it") {
  const std::string id = DiskCache(directory, CacheMode::read_write).id();
  CHECK(id.size() == 32);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  fs::create_directory_symlink(directory, scratch.path() / "link");
  CHECK(DiskCache(scratch.path() / "link", CacheMode::read_write).id() == id);
  CHECK(DiskCache(scratch.path() / "other", CacheMode::read_write).id() != id);
}

TEST_CASE_METHOD(Place, "a damaged stats file is written anew") {
  DiskCache(directory, CacheMode::read_write).publish(key_of("first"), binary);  // and evicts
  DiskCache cache(directory, CacheMode::read_write);
  cache.publish(key, binary);
  const std::string id = cache.id();
  for (const std::string_view bad :
       {"", "coconetl", "a longer text than any stats file has ever been, or will"}) {
    write_file(directory / "ledger", bad);
    const std::string drawn = cache.id();
    CHECK(drawn.size() == 32);
    CHECK(drawn != id);
    CHECK(cache.id() == drawn);
  }
  CHECK(cache.find(key) == binary);
}

TEST_CASE_METHOD(Place, "the stats count what is published") {
  DiskCache(directory, CacheMode::read_write).publish(key, binary);  // and evicts
  DiskCache cache(directory, CacheMode::read_write);
  std::uint64_t bytes = fs::file_size(path_of(key));
  for (const std::size_t size : {10, 1000, 100'000}) {
    const CacheKey own = key_of(std::to_string(size));
    cache.publish(own, {bytes_for("x", size), ""});
    bytes += fs::file_size(path_of(own));
  }
  const CacheStats state = update_stats(*CacheDirectory::open(directory, Ownership::mine));
  CHECK(state.totals.files == 4);
  CHECK(state.totals.bytes == bytes);
}

TEST_CASE_METHOD(Place, "a file that is not committed leaves nothing behind") {
  const OpenFile folder = open_folder(scratch.path());
  const fs::path target = scratch.path() / "target";
  {
    AtomicFile file(folder.number(), "target");
    file.write("half of it");
    CHECK_FALSE(fs::exists(target));
    CHECK(temporaries_under(scratch.path()) == 1);
  }
  CHECK(files_under(scratch.path()) == 0);
  AtomicFile file(folder.number(), "target");
  file.write("all ");
  file.write("of it");
  CHECK(file.commit());
  CHECK(read_file(target) == "all of it");
  AtomicFile late(folder.number(), "target");
  late.write("too late");
  CHECK_FALSE(late.commit());
  CHECK(read_file(target) == "all of it");
}

TEST_CASE_METHOD(Place, "threads that publish and find one key see all of the entry or none") {
  DiskCache cache(directory, CacheMode::read_write);
  const CachedBinary large{bytes_for("large", 30'000), "log"};
  std::atomic<int> wrong = 0;
  std::atomic<int> lost = 0;
  coconet::test::on_threads(4, [&](int) {
    CacheKey own = key_of("shared");
    for (int i = 0; i < 25; ++i) {
      if (!cache.publish(own, large)) ++lost;
      if (cache.find(own) != large) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(lost == 99);
  CHECK(entries_under(directory) == 1);
  CHECK(temporaries_under(directory) == 0);
}
