// The host's loops: 16-bit floats are converted as dtype.h does, and sums do not depend on what is
// computed with them.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "jit/platform/host/loops.h"

using namespace coconet;
using namespace coconet::jit;

namespace {

constexpr int patterns = 1 << 16;

template <class T>
std::vector<T> all_patterns() {
  std::vector<T> all(patterns);
  for (int bits = 0; bits < patterns; ++bits) all[bits].bits = static_cast<std::uint16_t>(bits);
  return all;
}

/// All values of T, what lies in the middle of two, and what lies beside that.
template <class T>
std::vector<float> hard_to_round() {
  std::vector<float> values;
  const std::vector<T> all = all_patterns<T>();
  for (int i = 0; i + 1 < patterns; ++i) {
    const auto low = static_cast<float>(all[i]), high = static_cast<float>(all[i + 1]);
    const float middle = low + (high - low) / 2;
    const float infinity = std::numeric_limits<float>::infinity();
    values.insert(values.end(), {low, middle, std::nextafter(middle, infinity),
                                 std::nextafter(middle, -infinity)});
  }
  return values;
}

template <class T>
void require_conversions() {
  const std::vector<T> all = all_patterns<T>();
  std::vector<float> wide(patterns);
  loops::widen(all.data(), patterns, wide.data());
  int wrong = 0;
  for (int i = 0; i < patterns; ++i) {
    const auto right = static_cast<float>(all[i]);
    wrong += std::isnan(right) ? !std::isnan(wide[i]) : wide[i] != right;
  }
  CHECK(wrong == 0);

  const std::vector<float> values = hard_to_round<T>();
  std::vector<T> narrow(values.size());
  loops::narrow(values.data(), std::ssize(values), narrow.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T right(static_cast<double>(values[i]));
    wrong += std::isnan(values[i]) ? !std::isnan(static_cast<float>(narrow[i]))
                                   : narrow[i].bits != right.bits;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("16-bit floats are widened and rounded as everywhere else") {
  require_conversions<BFloat16>();
  require_conversions<Half>();
}

TEST_CASE("a sum has the same bits alone and among others") {
  const std::int64_t count = 77, terms = 531;
  std::vector<float> matrix(count * terms), vector(terms), all(count), alone(count);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < vector.size(); ++i) vector[i] = std::cos(static_cast<float>(i));
  loops::multiply_rows(matrix.data(), terms, vector.data(), count, terms, all.data());
  for (std::int64_t i = 0; i < count; ++i)
    loops::multiply_rows(matrix.data() + i * terms, terms, vector.data(), 1, terms, &alone[i]);
  CHECK(all == alone);
}
