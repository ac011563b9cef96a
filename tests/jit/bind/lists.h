// Lists of buffers that the tests of scattered tensors take.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace coconet::test {

using List = std::vector<std::int64_t>;

[[nodiscard]] inline std::int64_t sum_of(const List& list) {
  return std::accumulate(list.begin(), list.end(), std::int64_t{0});
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
