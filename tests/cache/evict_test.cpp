// Bounds: what an eviction removes and leaves, and many writers at once.
#include "jit/cache/evict.h"

#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <thread>

#include "cache/processes.h"
#include "cache/samples.h"
#include "cache/sanitizers.h"
#include "captured_stderr.h"
#include "sample.h"

using namespace coconet::jit;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

void set_time_of(const fs::path& path, FileTime time) {
  const OpenFile folder = open_folder(path.parent_path());
  REQUIRE(set_time(folder.number(), path.filename(), time));
}

Totals totals_of(const fs::path& directory) {
  Totals totals;
  CacheDirectory::open(directory, Ownership::mine)->for_each([&](int, const EntryFile& file) {
    ++totals.files;
    totals.bytes += static_cast<std::uint64_t>(file.status.st_size);
  });
  return totals;
}

/// Ten entries, the n-th used n hours ago.
struct Ten : Place {
  Ten() {
    DiskCache cache(directory, CacheMode::read_write);
    for (int i = 0; i < 10; ++i) {
      cache.publish(key_at(i), {bytes_for("x", 1000), ""});
      set_time_of(path_of(key_at(i)), time_now() - std::chrono::hours(i));
    }
    each = fs::file_size(path_of(key_at(0)));
  }
  static CacheKey key_at(int i) { return key_of("kernel " + std::to_string(i)); }
  [[nodiscard]] Eviction evicted(const Limits& limits) const {
    return evict(*CacheDirectory::open(directory, Ownership::mine), limits, time_now());
  }
  [[nodiscard]] std::string left() const {
    std::string digits;
    for (int i = 0; i < 10; ++i) {
      if (fs::exists(path_of(key_at(i)))) digits += std::to_string(i);
    }
    return digits;
  }
  std::uint64_t each = 0;
};

}  // namespace

TEST_CASE_METHOD(Ten,
                 "an eviction removes what was used the longest ago, and makes room for more") {
  SECTION("nothing within the limits") {
    const Eviction done = evicted({10 * each, 10});
    CHECK(done.removed.files == 0);
    CHECK(done.left.files == 10);
    CHECK(done.left.bytes == 10 * each);
    CHECK(left() == "0123456789");
  }
  SECTION("nothing without limits") {
    CHECK(evicted({}).removed.files == 0);
    CHECK(left() == "0123456789");
  }
  SECTION("too many files: down to four fifths") {
    const Eviction done = evicted({0, 5});
    CHECK(done.removed.files == 6);
    CHECK(done.left.files == 4);
    CHECK(done.left.bytes == 4 * each);
    CHECK(left() == "0123");
  }
  SECTION("too many bytes: down to four fifths") {
    const Eviction done = evicted({5 * each, 100});
    CHECK(done.removed.bytes == 6 * each);
    CHECK(left() == "0123");
  }
  SECTION("the tighter of both limits counts") {
    CHECK(evicted({5 * each, 2}).left.files == 2);
    CHECK(left() == "01");
  }
  SECTION("an entry that is larger than all is removed as well") {
    CHECK(evicted({1, 0}).left.files == 0);
    CHECK(left().empty());
  }
  SECTION("entries of other formats count, and go") {
    const fs::path old = path_of(key_at(0)).parent_path() / (std::string(62, '0') + ".v1");
    write_file(old, "an old format");
    set_time_of(old, time_now() - std::chrono::hours(99));
    CHECK(evicted({0, 10}).left.files == 8);
    CHECK_FALSE(fs::exists(old));
    CHECK(left() == "01234567");
  }
}

TEST_CASE_METHOD(Ten, "temporary files go after an hour, others never") {
  const fs::path folder = path_of(key_at(0)).parent_path();
  const fs::path young = folder / ".tmp-host-1-1";
  const fs::path old = folder / ".tmp-host-1-2";
  const fs::path foreign = folder / "notes.txt";
  for (const fs::path& path : {young, old, foreign}) write_file(path, "x");
  set_time_of(young, time_now() - 59min);
  set_time_of(old, time_now() - 61min);
  set_time_of(foreign, time_now() - std::chrono::hours(1000));
  CHECK(evicted({}).temporaries == 1);
  CHECK(fs::exists(young));
  CHECK_FALSE(fs::exists(old));
  CHECK(evicted({1, 1}).temporaries == 0);
  CHECK(fs::exists(foreign));
  CHECK(fs::exists(directory / "ledger"));
}

TEST_CASE_METHOD(Ten, "a hit makes an entry outlive those that were never asked for") {
  CacheSettings settings = in_directory(directory);
  settings.limits.files = 20;
  {
    KernelCache cache(settings);
    set_time_of(path_of(key_at(3)), time_now() - 30h);
    CHECK(cache.find(key_at(3)));
    for (int i = 0; i < 100; ++i) cache.publish(key_of("once " + std::to_string(i)), binary);
  }
  CHECK(left().find('3') != std::string::npos);
  CHECK(entries_under(directory) <= 20);
}

TEST_CASE_METHOD(Ten, "one process evicts at a time, and others leave it to that one") {
  const auto opened = CacheDirectory::open(directory, Ownership::mine);
  auto lock = lock_if_free(*opened, LockPlace::eviction());
  REQUIRE(lock);
  CacheSettings settings = in_directory(directory);
  settings.limits.files = 5;
  KernelCache(settings).publish(key, binary);
  CHECK(entries_under(directory) == 11);
  lock.reset();
  KernelCache(settings).publish(key_of("next"), binary);
  CHECK(entries_under(directory) == 4);
  const CacheStats state = update_stats(*opened);
  CHECK(state.totals.files == 4);
  CHECK(state.totals.bytes == totals_of(directory).bytes);
  CHECK(state.evicted > 0);
}

TEST_CASE_METHOD(Ten, "an eviction that can remove nothing ends") {
  // What looks like entries, and cannot be unlinked.
  for (int i = 0; i < 9; ++i) {
    fs::remove(path_of(key_at(i)));
    fs::create_directories(path_of(key_at(i)));
  }
  CacheSettings settings = in_directory(directory);
  settings.limits.files = 2;
  const auto start = std::chrono::steady_clock::now();
  KernelCache(settings).publish(key, binary);
  CHECK(coconet::test::is_within(start, 5s));
  CHECK(totals_of(directory).files == 9);
}

TEST_CASE_METHOD(Place, "a process that is forked during an eviction evicts by itself, and ends") {
  if (thread_sanitizer) return;  // it lets no process start threads that was forked beside one
  DiskCache(directory, CacheMode::read_write).publish(key, binary);
  auto cache = std::make_unique<DiskCache>(directory, CacheMode::read_write, Limits{0, 1});
  auto busy = lock_if_free(*CacheDirectory::open(directory, Ownership::mine), LockPlace::stats());
  REQUIRE(busy);
  const CapturedStderr printed;
  cache->publish(key_of("second"), binary);  // the eviction that it starts waits for the stats
  Child child([&] {
    // Until the eviction of the other process has given up: it takes a second.
    while (printed.count("does not work: cannot lock 'ledger'") == 0)
      std::this_thread::sleep_for(10ms);
    busy.reset();
    cache->publish(key_of("third"), binary);
    cache.reset();
  });
  CHECK(child.finish());
  CHECK(entries_under(directory) == 1);
}

// Each writes its part of ten times the limit, and each looks for the hot entries all the while.
TEST_CASE_METHOD(Place,
                 "eight writers of ten times the limit end below it, and what is hot stays") {
  constexpr int writers = 8;
  constexpr int hot = 8;
  CacheSettings settings = in_directory(directory);
  std::size_t payload = 0;
  int entries = 0;
  SECTION("limited by files") {
    settings.limits = {0, 100};
    payload = 200;
    entries = 1000;
  }
  SECTION("limited by bytes") {
    settings.limits = {std::uint64_t{2} << 20, 0};
    payload = 40'000;
    entries = 525;
  }
  SECTION("limited by both") {
    settings.limits = {std::uint64_t{1} << 20, 60};
    payload = 17'000;
    entries = 620;
  }
  const auto hot_key = [](int i) { return key_of("hot " + std::to_string(i)); };
  const auto hot_binary = [&](int i) {
    return CachedBinary{bytes_for("hot " + std::to_string(i), payload), "log"};
  };
  {
    KernelCache cache(settings);
    for (int i = 0; i < hot; ++i) cache.publish(hot_key(i), hot_binary(i));
    for (int i = 0; i < hot; ++i) REQUIRE(cache.find(hot_key(i)) == hot_binary(i));
  }
  const CapturedStderr printed;  // by the children as well
  const int failures = failures_of(writers, [&](int writer) {
    KernelCache cache(settings);
    for (int i = writer; i < entries; i += writers) {
      cache.publish(key_of("entry " + std::to_string(i)),
                    {bytes_for(std::to_string(i), payload), ""});
      if (cache.find(hot_key(i % hot)) != hot_binary(i % hot))
        throw std::runtime_error("a hot entry is gone");
    }
    if (cache.events().corrupt + cache.events().publish_lost != 0)
      throw std::runtime_error("a reader saw an error");
  });
  CHECK(failures == 0);
  CHECK(printed.text().empty());
  const Totals left = totals_of(directory);
  INFO(left.files << " entries of " << left.bytes << " bytes are left");
  CHECK_FALSE(settings.limits.exceeded_by(left));
  CHECK(left.files > hot);
  CHECK(temporaries_under(directory) == 0);
  KernelCache cache(settings);
  for (int i = 0; i < hot; ++i) CHECK(cache.find(hot_key(i)) == hot_binary(i));
}
