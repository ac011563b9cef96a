// What a hit costs, in memory and on disk.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "cache/allocations.h"
#include "cache/samples.h"
#include "cache/sanitizers.h"
#include "captured_stderr.h"
#include "jit/cache/memory_cache.h"
#include "sample.h"

using namespace coconet::jit;
using Clock = std::chrono::steady_clock;

namespace {

#ifdef NDEBUG
constexpr bool measures = !address_sanitizer && !thread_sanitizer;
#else
constexpr bool measures = false;
#endif

/// Nanoseconds of a call, `calls` at a time: the best of several medians, because others work on
/// this machine.
double nanoseconds(int calls, const std::function<void()>& body) {
  double best = 1e18;
  for (int series = 0; series < 7; ++series) {
    std::vector<double> samples;
    for (int sample = 0; sample < 21; ++sample) {
      const auto start = Clock::now();
      for (int call = 0; call < calls; ++call) body();
      samples.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
                        calls);
    }
    std::nth_element(samples.begin(), samples.begin() + 10, samples.end());
    best = std::min(best, samples[10]);
  }
  return best;
}

}  // namespace

TEST_CASE("what is kept in memory is found by owner and digest") {
  MemoryCache<int> cache;
  const int one = 0;
  const int other = 0;
  const Digest digest = sha256("a");
  CHECK(cache.find(&one, digest) == nullptr);
  const auto kept = cache.keep(&one, digest, std::make_shared<int>(1));
  CHECK(*kept == 1);
  CHECK(cache.keep(&one, digest, std::make_shared<int>(2)) == kept);
  CHECK(cache.find(&one, digest) == kept);
  CHECK(cache.find(&other, digest) == nullptr);
  CHECK(cache.find(&one, sha256("b")) == nullptr);
}

TEST_CASE_METHOD(Place, "a hit in memory takes 100 ns and allocates nothing, one on disk 50 us") {
  const CacheKey large = key_of(bytes_for("source", 16'000));
  const CachedBinary kernel{bytes_for("payload", 40'000), "log"};

  MemoryCache<CachedBinary> memory;
  std::vector<CacheKey> keys;
  for (int i = 0; i < 1000; ++i) {
    keys.push_back(key_of(std::to_string(i)));
    memory.keep(this, keys.back().digest(), std::make_shared<CachedBinary>(kernel));
  }
  std::size_t at = 0;
  bool found = true;
  const auto find_in_memory = [&] {
    found = found && memory.find(this, keys[at].digest()) != nullptr;
    at = (at + 1) % keys.size();
  };
  const std::uint64_t before = allocations();
  for (int i = 0; i < 10'000; ++i) find_in_memory();
  CHECK(allocations() == before);
  memory.keep(&at, key.digest(), nullptr);
  CHECK(allocations() > before);  // which shows that they are counted

  DiskCache disk(directory, CacheMode::read_write);
  disk.publish(large, kernel);
  REQUIRE(disk.find(large) == kernel);
  if (!measures || !coconet::test::runs_all()) return;
  const double memory_ns = nanoseconds(10'000, find_in_memory);
  CHECK(found);
  const double disk_ns = nanoseconds(20, [&] { found = found && disk.find(large).has_value(); });
  CHECK(found);
  std::vector<double> made;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    disk.publish(key_of(bytes_for(std::to_string(i), 16'000)), kernel);
    made.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  const double make_ns = *std::min_element(made.begin(), made.end());
  std::printf(
      "a hit in memory: %.0f ns; on disk: %.1f us; an entry is stored in %.0f us: %.0f and %.0f "
      "times as long\n",
      memory_ns, disk_ns / 1e3, make_ns / 1e3, make_ns / memory_ns, make_ns / disk_ns);
  CHECK(memory_ns <= 100);
  CHECK(disk_ns <= 50'000);
}
