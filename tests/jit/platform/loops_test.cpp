// The host's loops: 16-bit floats are converted as dtype.h does, and sums do not depend on what is
// computed with them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
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

TEMPLATE_TEST_CASE("a sum of products has the same bits alone and among others", "", float, double,
                   BFloat16) {
  const std::int64_t count = 77, terms = 531;
  const auto numbers = [](std::int64_t length, double phase) {
    std::vector<TestType> values;
    for (std::int64_t i = 0; i < length; ++i)
      values.emplace_back(static_cast<TestType>(std::sin(static_cast<double>(i) + phase)));
    return values;
  };
  const std::vector<TestType> matrix = numbers(count * terms, 0);
  const std::vector<TestType> row = numbers(terms, 1), column = numbers(count, 1);
  std::vector<TestType> all(terms), alone(terms);
  const auto differ = [&](std::int64_t results) {
    return std::memcmp(all.data(), alone.data(), results * sizeof(TestType));
  };

  loops::multiply_rows(matrix.data(), terms, row.data(), count, terms, all.data());
  for (std::int64_t i = 0; i < count; ++i)
    loops::multiply_rows(matrix.data() + i * terms, terms, row.data(), 1, terms, &alone[i]);
  CHECK(differ(count) == 0);

  loops::multiply_columns(matrix.data(), terms, column.data(), terms, count, all.data());
  for (std::int64_t j = 0; j < terms; ++j)
    loops::multiply_columns(matrix.data() + j, terms, column.data(), 1, count, &alone[j]);
  CHECK(differ(terms) == 0);
}

/// The greatest distance of `out[i]` from the sum over k of element(i, k) vector[k], in units of
/// the sum of their magnitudes.
template <class Element>
double largest_error(const std::vector<BFloat16>& out, const std::vector<BFloat16>& vector,
                     const Element& element) {
  double largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = 0, magnitude = 0;
    for (std::size_t k = 0; k < vector.size(); ++k) {
      const double term = double{static_cast<float>(element(i, k))} * static_cast<float>(vector[k]);
      sum += term;
      magnitude += std::abs(term);
    }
    largest = std::max(largest, std::abs(static_cast<float>(out[i]) - sum) / magnitude);
  }
  return largest;
}

TEST_CASE("products of bf16 are in their places") {
  const std::int64_t rows = 45, columns = 1131;
  std::vector<BFloat16> matrix, vector;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    matrix.emplace_back(std::sin(static_cast<double>(i * i % 101)));
  for (std::int64_t i = 0; i < columns; ++i)
    vector.emplace_back(std::cos(static_cast<double>(i * i % 89)));
  const auto at = [&](std::size_t i, std::size_t k) { return matrix[i * columns + k]; };

  std::vector<BFloat16> out(rows);
  loops::multiply_rows(matrix.data(), columns, vector.data(), rows, columns, out.data());
  CHECK(largest_error(out, vector, at) < 1.0 / 256);  // that of rounding the result

  vector.resize(rows);
  out.resize(columns);
  loops::multiply_columns(matrix.data(), columns, vector.data(), columns, rows, out.data());
  CHECK(largest_error(out, vector, [&](auto i, auto k) { return at(k, i); }) < 1.0 / 256);
}
