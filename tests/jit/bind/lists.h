// Lists of buffers that the tests of scattered tensors take.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "jit/conformance/conformance.h"

namespace coconet::test {

using List = std::vector<std::int64_t>;

[[nodiscard]] inline std::int64_t sum_of(const List& list) {
  return std::accumulate(list.begin(), list.end(), std::int64_t{0});
}

/// A check of `iterations` steps for each list of the lengths of buffers along n.
[[nodiscard]] inline std::vector<Checked> cases_of(const std::vector<List>& all, int iterations) {
  std::vector<Checked> cases;
  for (const List& list : all)
    cases.push_back(check_of({{"n", sum_of(list)}}, iterations, {{"n", list}}));
  return cases;
}

/// One buffer, buffers shorter than a vector, ones that begin and end inside of the buckets of
/// others, and slices that begin and end in any of them.
inline const std::vector<List> lists = {{1},
                                        {17},
                                        {1, 1, 1},
                                        {5, 1, 64, 3},
                                        {4096, 4096},
                                        {1, 4097, 2, 8191, 1, 300},
                                        {9000, 1, 1, 1, 1, 1, 1, 1, 1000}};

}  // namespace coconet::test
