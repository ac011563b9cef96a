// Many processes and threads that want the same kernel, or many kernels, at once.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cache/processes.h"
#include "cache/samples.h"
#include "captured_stderr.h"
#include "on_threads.h"
#include "sample.h"

using namespace coconet::jit;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

/// What processes count together.
struct Counts {
  std::atomic<int> made = 0;
  std::atomic<int> hits = 0;
  std::atomic<int> lost = 0;
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;  ///< that ran at once
  std::atomic<std::int64_t> done = 0;
};

struct Race : Place {
  /// A compiler that takes `time` and writes one line into a log at its start.
  [[nodiscard]] OneRecipe compiler(const CachedBinary& product,
                                   std::chrono::milliseconds time) const {
    return {[&product, time, this] {
              const int now = ++counts->running;
              int most = counts->most;
              while (now > most && !counts->most.compare_exchange_weak(most, now)) {
              }
              const OpenFile log = open_at(AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
              write_bytes(log.number(), "start " + std::to_string(getpid()) + "\n");
              std::this_thread::sleep_for(time);
              --counts->running;
              return product;
            },
            {}};
  }
  /// Throws when the bytes are wrong.
  void obtain(KernelCache& cache, const CacheKey& of, const CachedBinary& product,
              std::chrono::milliseconds time, std::chrono::milliseconds patience = 60s) const {
    const auto got = obtain_one(cache, of, compiler(product, time), patience);
    if (got.binary != product) throw std::runtime_error("wrong bytes");
    ++(got.was_made ? counts->made : counts->hits);
  }
  [[nodiscard]] int starts() const {
    const std::string log = read_file(log_path);
    return static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  }
  void wait_for_start(int count) const {
    while (starts() < count) std::this_thread::sleep_for(1ms);
  }
  Shared<Counts> counts;
  fs::path log_path = scratch.path() / "log";
};

CacheKey kernel(int i) {
  return key_of("kernel " + std::to_string(i));
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

TEST_CASE_METHOD(Race, "64 processes that want one kernel start one compiler") {
  const CapturedStderr printed;
  const int failures = failures_of(64, [&](int) {
    KernelCache cache(in_directory(directory));
    obtain(cache, key, binary, 100ms);
    counts->lost += static_cast<int>(cache.events().publish_lost);
  });
  CHECK(failures == 0);
  CHECK(starts() == 1);
  CHECK(counts->made == 1);
  CHECK(counts->hits == 63);
  CHECK(counts->lost == 0);
  CHECK(entries_under(directory) == 1);
  CHECK(temporaries_under(directory) == 0);
  CHECK(printed.text().empty());
}

TEST_CASE_METHOD(Race, "16 processes that ask one question ask once") {
  const int failures = failures_of(16, [&](int) {
    KernelCache cache(in_directory(directory));
    const std::string answer =
        cache.remember(key, [&] { return compiler(binary, 50ms).make().payload; });
    if (answer != binary.payload) throw std::runtime_error("wrong answer");
    counts->lost += static_cast<int>(cache.events().publish_lost);
  });
  CHECK(failures == 0);
  CHECK(starts() == 1);
  CHECK(counts->lost == 0);
}

TEST_CASE_METHOD(Race, "64 threads that want one kernel start one compiler") {
  KernelCache cache(in_directory(directory));
  (void)key.digest();
  coconet::test::on_threads(64, [&](int) { obtain(cache, key, binary, 100ms); });
  CHECK(starts() == 1);
  CHECK(counts->made == 1);
  CHECK(counts->hits == 63);
  CHECK(cache.events().publish_lost == 0);
}

TEST_CASE_METHOD(Race, "64 kernels in 64 threads start as many compilers at once as allowed") {
  KernelCache cache(in_directory(directory, 5));
  std::vector<CacheKey> keys;
  for (int i = 0; i < 64; ++i) keys.push_back(kernel(i));
  coconet::test::on_threads(
      64, [&](int i) { obtain(cache, keys[static_cast<std::size_t>(i)], binary, 30ms); });
  CHECK(counts->made == 64);
  CHECK(starts() == 64);
  CHECK(counts->most == 5);
}

TEST_CASE_METHOD(Race, "64 kernels in 64 processes start as many compilers at once as allowed") {
  const int failures = failures_of(64, [&](int i) {
    KernelCache cache(in_directory(directory, 5));
    obtain(cache, kernel(i), binary, 60ms);
  });
  CHECK(failures == 0);
  CHECK(counts->made == 64);
  CHECK(starts() == 64);
  CHECK(counts->most == 5);
}

TEST_CASE_METHOD(Race, "a process has its own share of the compilers of a machine") {
  SECTION("alone") {
    KernelCache cache(in_directory(directory));
    cache.slots().set(2, 6);
    std::vector<CacheKey> keys;
    for (int i = 0; i < 16; ++i) keys.push_back(kernel(i));
    coconet::test::on_threads(
        16, [&](int i) { obtain(cache, keys[static_cast<std::size_t>(i)], binary, 20ms); });
    CHECK(counts->most == 2);
  }
  SECTION("with others") {
    const int failures = failures_of(8, [&](int process) {
      KernelCache cache(in_directory(directory));
      cache.slots().set(2, 6);
      std::vector<CacheKey> keys;
      for (int i = 0; i < 8; ++i) keys.push_back(kernel(8 * process + i));
      coconet::test::on_threads(
          8, [&](int i) { obtain(cache, keys[static_cast<std::size_t>(i)], binary, 50ms); });
    });
    CHECK(failures == 0);
    CHECK(counts->most == 6);
  }
}

TEST_CASE_METHOD(Race, "without a directory threads are held back all the same") {
  CacheSettings settings;
  settings.jobs = 3;
  const CapturedStderr printed;
  KernelCache cache(settings);
  (void)key.digest();
  coconet::test::on_threads(16, [&](int) { obtain(cache, key, binary, 20ms); });
  CHECK(counts->most == 3);
  CHECK(counts->made == 16);
}

TEST_CASE_METHOD(Race, "when the one that compiles is killed, another takes over at once") {
  Child first([&] {
    KernelCache cache(in_directory(directory));
    obtain(cache, key, binary, 1h);
  });
  wait_for_start(1);
  std::vector<Child> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      KernelCache cache(in_directory(directory));
      obtain(cache, key, binary, 10ms);
      counts->done = now_ms();
    });
  }
  std::this_thread::sleep_for(200ms);
  CHECK(starts() == 1);
  CHECK(counts->done == 0);
  const std::int64_t killed = now_ms();
  first.signal(SIGKILL);
  CHECK_FALSE(first.finish());
  for (Child& other : others) CHECK(other.finish());
  CHECK(starts() == 2);
  CHECK(counts->made == 1);
  CHECK(counts->hits == 3);
  if (coconet::test::runs_all()) CHECK(counts->done - killed < 2000);  // their patience is a minute
}

TEST_CASE_METHOD(Race,
                 "when the one that compiles is stopped, others compile after their patience") {
  Child first([&] {
    KernelCache cache(in_directory(directory));
    obtain(cache, key, binary, 50ms);
    counts->lost += static_cast<int>(cache.events().publish_lost);
  });
  wait_for_start(1);
  first.signal(SIGSTOP);
  const std::int64_t stopped = now_ms();
  std::vector<Child> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      KernelCache cache(in_directory(directory));
      obtain(cache, key, binary, 10ms, 400ms);
      counts->done = now_ms();
    });
  }
  for (Child& other : others) CHECK(other.finish());
  CHECK(counts->done - stopped >= 400);
  if (coconet::test::runs_all()) CHECK(counts->done - stopped < 5000);
  CHECK(counts->made >= 1);
  CHECK(counts->made + counts->hits == 2);
  first.signal(SIGCONT);
  CHECK(first.finish());
  CHECK(counts->made + counts->hits == 3);
  CHECK(counts->lost == 1);
  CHECK(starts() == counts->made);
  CHECK(KernelCache(in_directory(directory)).find(key) == binary);
}

TEST_CASE_METHOD(
    Race, "when a compiler's place is held by a process that is stopped, patience ends too") {
  Child first([&] {
    KernelCache cache(in_directory(directory, 1));
    obtain(cache, key, binary, 50ms);
  });
  wait_for_start(1);
  first.signal(SIGSTOP);
  const auto start = Clock::now();
  KernelCache cache(in_directory(directory, 1));
  obtain(cache, kernel(0), binary, 1ms, 300ms);
  CHECK(Clock::now() - start >= 300ms);
  CHECK(coconet::test::is_within(start, 5s));
  first.signal(SIGCONT);
  CHECK(first.finish());
}

TEST_CASE_METHOD(Race, "a lock that is given back is free, though a forked process lives on") {
  fs::create_directories(directory);
  fs::permissions(directory, fs::perms::owner_all);
  const auto opened = CacheDirectory::open(directory, Ownership::mine);
  auto lock = lock_if_free(*opened, LockPlace::key(key.digest()));
  REQUIRE(lock);
  const Child heir([] { pause(); });
  CHECK_FALSE(lock_if_free(*opened, LockPlace::key(key.digest())));
  lock.reset();
  CHECK(lock_if_free(*opened, LockPlace::key(key.digest())));
}

TEST_CASE_METHOD(Race, "a compiler that fails leaves the kernel to the next process") {
  const int failures = failures_of(8, [&](int) {
    KernelCache cache(in_directory(directory));
    OneRecipe recipe = compiler(binary, 5ms);
    recipe.make = [&, make = recipe.make] {
      CachedBinary made = make();
      if (starts() == 1) throw std::runtime_error("the first one fails");
      return made;
    };
    try {
      if (!obtain_one(cache, key, recipe, 60s).was_made) ++counts->hits;
    } catch (const std::runtime_error&) {
      ++counts->lost;
    }
  });
  CHECK(failures == 0);
  CHECK(starts() == 2);
  CHECK(counts->lost == 1);
  CHECK(counts->hits == 6);
}
