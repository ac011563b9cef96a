// kill -9 at any moment of filling a cache.
#include <fcntl.h>
#include <signal.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "cache/processes.h"
#include "cache/samples.h"
#include "captured_stderr.h"
#include "jit/cache/inspect.h"
#include "sample.h"

using namespace coconet::jit;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t sizes[] = {0, 1000, 300'000, 16'000, 60'000};

CacheKey key_at(int round, std::size_t i) {
  return key_of("kernel " + std::to_string(i) + " of round " + std::to_string(round));
}

CachedBinary binary_at(int round, std::size_t i) {
  const std::string name = std::to_string(round) + "/" + std::to_string(i);
  return {bytes_for(name, sizes[i]), "log of " + name};
}

/// Asks for every kernel of a round, and makes those that are not there. How many were not; throws
/// when one is wrong.
int populate(const fs::path& directory, int round) {
  KernelCache cache(in_directory(directory));
  int made = 0;
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    const CachedBinary binary = binary_at(round, i);
    if (obtain_one(cache, key_at(round, i), recipe_of(binary, made), 60s).binary != binary)
      throw std::runtime_error("wrong bytes");
  }
  if (cache.events().corrupt != 0) throw std::runtime_error("a bad entry");
  return made;
}

/// What `coconet cache verify` would say.
std::string problem_in(const fs::path& directory) {
  std::string problem;
  const auto opened = CacheDirectory::open(directory, Ownership::mine);
  if (!opened) return problem;
  inspect_all(*opened, InspectDepth::all, [&](const InspectedEntry& entry) {
    if (!entry.problem.empty()) problem += entry.file.digits() + ": " + entry.problem + "\n";
  });
  for (const auto& [path, wrong] : unusable_folders(*opened))
    problem += path.string() + ": " + wrong + "\n";
  return problem;
}

/// How long a process that runs `body` takes, of five.
std::chrono::duration<double> median_of(const std::function<void(int)>& body) {
  std::vector<std::chrono::duration<double>> times;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    Child child([&] { body(i); });
    REQUIRE(child.finish());
    times.emplace_back(Clock::now() - start);
  }
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return times[2];
}

}  // namespace

TEST_CASE_METHOD(Place, "kill -9 at many moments of filling a cache leaves no bad entry") {
  const int kills = static_cast<int>(coconet::test::share_of(1000));
  constexpr int per_directory = 10;
  const std::uint64_t seed = coconet::test::seed();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> part(0, 1);

  // A round that begins with no directory, and a later one.
  const auto whole_fresh =
      median_of([&](int i) { (void)populate(scratch.path() / ("timed" + std::to_string(i)), 0); });
  const auto whole_later =
      median_of([&](int i) { (void)populate(scratch.path() / "timed0", i + 1); });

  int killed = 0;
  int without_directory = 0;
  int temporaries = 0;
  std::size_t entries = 0;
  const CapturedStderr printed;
  int attempts = 0;  // of which some come when the process has ended
  double share = 1;  // of the measured times: less where the machine has become quicker since
  for (int i = 0; killed < kills && i < 5 * kills; ++i) {
    ++attempts;
    const int round = i % per_directory;
    const fs::path own = directory / std::to_string(i / per_directory);
    INFO("seed " << seed << ", kill " << i);
    Child child([&] { (void)populate(own, round); });
    // A fresh directory is made right at the beginning, which half of these kills are near to.
    const double when = part(random);
    std::this_thread::sleep_for(
        share * (round == 0 ? std::pow(when, 4) * whole_fresh : when * whole_later));
    child.signal(SIGKILL);
    const bool ended = child.finish();
    if (!ended) ++killed;
    share = ended ? share * 0.9 : std::min(1.0, share * 1.05);
    if (!fs::exists(own)) ++without_directory;
    REQUIRE(problem_in(own) == "");
    if (round + 1 < per_directory) continue;

    // What the killed ones have left is found, the rest is made, all at once and without a warning.
    for (const int again : {0, round}) {
      REQUIRE(populate(own, again) <= static_cast<int>(std::size(sizes)));
      REQUIRE(populate(own, again) == 0);
    }
    REQUIRE(problem_in(own) == "");
    const auto opened = CacheDirectory::open(own, Ownership::mine);
    const std::size_t left = temporaries_under(own);
    temporaries += static_cast<int>(left);
    REQUIRE(evict(*opened, {}, time_now()).temporaries == 0);
    for (const auto& file : fs::recursive_directory_iterator(own)) {
      if (file.path().filename().string().starts_with(temporary_prefix))
        fs::last_write_time(file.path(), fs::file_time_type::clock::now() - 61min);
    }
    REQUIRE(evict(*opened, {}, time_now()).temporaries == left);
    entries += entries_under(own);
    REQUIRE(files_under(own) == entries_under(own) + 1);  // and the stats
  }
  WARN("seed " << seed << ": " << killed << " of " << attempts << " killed within "
               << whole_later.count() * 1e3 << " ms, " << without_directory
               << " before there was a directory; " << temporaries << " temporary files and "
               << entries << " entries left");
  CHECK(printed.text().empty());
  CHECK(killed == kills);
  if (!coconet::test::runs_all()) return;
  CHECK(temporaries > 0);
  CHECK(without_directory > 0);
}
