// Which of two is the quicker, told from pairs of times.
#include "jit/tune/paired_ratios.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using coconet::jit::PairedRatios;
using Verdict = PairedRatios::Verdict;

namespace {

Verdict after(const std::vector<double>& ratios, double bound = 1, double hopeless = 1.3) {
  PairedRatios pairs;
  for (const double ratio : ratios) pairs.add(ratio);
  return pairs.verdict(bound, hopeless);
}

/// How many of 1000 comparisons of at most 31 pairs end with each verdict.
struct Ends {
  int quicker = 0, slower = 0, open = 0;
};

/// Pairs of a machine on which times vary by some percent, and where `disturbed` of them are twice
/// to four times as long. The challenger takes `truth` of the champion's time.
Ends compared(double truth, double disturbed, double bound) {
  std::mt19937_64 random(36);
  std::normal_distribution<double> noise(0, 0.03);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto time = [&] {
    const double undisturbed = std::exp(noise(random));
    return uniform(random) < disturbed ? undisturbed * (2 + 2 * uniform(random)) : undisturbed;
  };
  Ends ends;
  for (int comparison = 0; comparison < 1000; ++comparison) {
    PairedRatios pairs;
    Verdict verdict = Verdict::open;
    while (verdict == Verdict::open && pairs.count() < 31) {
      const double champion = time();
      pairs.add(truth * time() / champion);
      verdict = pairs.verdict(bound, 1.3);
    }
    if (verdict == Verdict::open) verdict = pairs.last_verdict(bound);
    (verdict == Verdict::open      ? ends.open
     : verdict == Verdict::quicker ? ends.quicker
                                   : ends.slower) += 1;
  }
  return ends;
}

}  // namespace

TEST_CASE("fewer than seven pairs say nothing, unless four are hopeless") {
  CHECK(after({0.5, 0.5, 0.5, 0.5, 0.5, 0.5}) == Verdict::open);
  CHECK(after({0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}) == Verdict::quicker);
  CHECK(after({1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1}) == Verdict::slower);
  CHECK(after({1.4, 1.4, 1.4}) == Verdict::open);
  CHECK(after({1.4, 9, 1.4, 1.4}) == Verdict::slower);
  CHECK(after({1.4, 9, 1.4, 1.4}, 1, 0) == Verdict::open);
  CHECK(after({1.4, 1.4, 1.2, 1.4}) == Verdict::open);
}

TEST_CASE("one bad pair drops nobody and lets nobody win") {
  CHECK(after({50}) == Verdict::open);
  CHECK(after({50, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}) == Verdict::open);
  CHECK(after({50, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}) == Verdict::quicker);
  CHECK(after({0.01, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1}) == Verdict::open);
}

TEST_CASE("the bound is what counts as quicker") {
  const std::vector<double> ratios(9, 0.98);
  CHECK(after(ratios, 0.99) == Verdict::quicker);
  CHECK(after(ratios, 0.97) == Verdict::slower);
  CHECK(after(ratios, 0.98) == Verdict::open);
}

TEST_CASE("where no further pair comes, few say what they all say") {
  PairedRatios pairs;
  pairs.add(0.5);
  CHECK(pairs.last_verdict(1) == Verdict::quicker);
  pairs.add(0.7);
  CHECK(pairs.verdict(1, 1.3) == Verdict::open);
  CHECK(pairs.last_verdict(1) == Verdict::quicker);
  pairs.add(1.2);
  CHECK(pairs.last_verdict(1) == Verdict::open);
  CHECK(pairs.median() == 0.7);
}

TEST_CASE("equals are rarely told apart, and what is a tenth quicker nearly always is") {
  for (const double disturbed : {0.0, 0.3}) {
    const Ends equals = compared(1, disturbed, 0.99), quicker = compared(0.9, disturbed, 0.99);
    INFO(disturbed);
    CHECK(equals.quicker < 50);
    CHECK(quicker.quicker > (disturbed > 0 ? 700 : 990));
    CHECK(quicker.slower < 10);
  }
}
