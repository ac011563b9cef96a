// The draw, and the listener that knows which test runs.
#include "sample.h"

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace coconet::test {

namespace {

std::uint64_t number_in_environment(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::stoull(text);
}

/// The draw of the running test, which depends on the seed and the test's name alone, and on no
/// other test.
struct Draw {
  std::mt19937_64 random{0};
  bool first = true;
};
Draw current;

class Listener : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    std::uint64_t hash = seed();
    for (const char letter : test.name)  // FNV-1a, which is the same everywhere
      hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    current = {std::mt19937_64(hash), true};
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (stats.totals.assertions.failed > 0 && one_in() > 1)
      std::cout << "cases were drawn with TESTS_SEED=" << seed() << ", one in " << one_in()
                << "; tests/sample.h says how to run all\n";
  }
};
CATCH_REGISTER_LISTENER(Listener)

}  // namespace

bool runs_all() {
  return number_in_environment("TESTS_ALL", 0) != 0;
}

std::uint64_t seed() {
  return number_in_environment("TESTS_SEED", 1);
}

std::uint64_t one_in() {
  const char* const variable = runs_all() ? "TESTS_ALL_ONE_IN" : "TESTS_ONE_IN";
  return std::max<std::uint64_t>(1, number_in_environment(variable, 1));
}

bool draw() {
  const bool drawn = current.random() % one_in() == 0;
  const bool first = current.first;
  current.first = false;
  return first || drawn;
}

std::size_t share_of(std::size_t all, std::size_t least) {
  return std::min(all, std::max<std::size_t>(all / one_in(), least));
}

bool is_within(std::chrono::steady_clock::time_point start, std::chrono::milliseconds limit) {
  return !runs_all() || std::chrono::steady_clock::now() - start < limit;
}

}  // namespace coconet::test
