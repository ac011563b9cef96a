// The sign test, by order statistics.
#include "jit/tune/paired_ratios.h"

#include <algorithm>
#include <cmath>

namespace coconet::jit {
namespace {

/// How many of `count` may lie on either side of a bound for the median to be on the other: as many
/// as chance leaves there in one of a hundred cases at most. Negative where `count` is too few for
/// even none.
int most_outside(int count) {
  constexpr double chance = 0.01;
  double one = std::pow(0.5, count), sum = one;
  int outside = -1;
  while (sum <= chance) {
    ++outside;
    one *= static_cast<double>(count - outside) / (outside + 1);
    sum += one;
  }
  return outside;
}

}  // namespace

void PairedRatios::add(double ratio) {
  sorted_.insert(std::ranges::upper_bound(sorted_, ratio), ratio);
}

double PairedRatios::median() const {
  return sorted_[sorted_.size() / 2];
}

PairedRatios::Verdict PairedRatios::verdict_beside(double bound, int outside) const {
  if (outside < 0) return Verdict::open;
  const auto place = static_cast<std::size_t>(outside);
  if (sorted_[sorted_.size() - 1 - place] < bound) return Verdict::quicker;
  return sorted_[place] > bound ? Verdict::slower : Verdict::open;
}

PairedRatios::Verdict PairedRatios::verdict(double bound, double hopeless) const {
  constexpr int enough_of_hopeless = 4;
  if (hopeless > 0 && count() >= enough_of_hopeless && sorted_.front() > hopeless)
    return Verdict::slower;
  return verdict_beside(bound, most_outside(count()));
}

PairedRatios::Verdict PairedRatios::last_verdict(double bound) const {
  return verdict_beside(bound, std::max(most_outside(count()), 0));
}

}  // namespace coconet::jit
