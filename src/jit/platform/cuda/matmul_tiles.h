// How a product is cut into tiles for the kernel that takes them while it is made.
#pragma once

#include <algorithm>
#include <cstdint>

namespace coconet::jit {

/// Rows of a tile of a product on `multiprocessors`, of which kernels beside it have a quarter: as
/// many blocks of cuBLASLt's usual 128 x 128 as let the product and what is left to do for its last
/// tile end first. Blocks run in waves of one a multiprocessor, and a wave that is not full takes
/// as long as a full one, so tiles of whole waves cost nothing. Two to eight tiles, where there are
/// as many rows of blocks; not measured on GPUs.
[[nodiscard]] inline std::int64_t rows_of_gpu_tile(std::int64_t rows, std::int64_t columns,
                                                   int multiprocessors) {
  constexpr std::int64_t block = 128, most_tiles = 8;
  const auto parts = [](std::int64_t all, std::int64_t of) { return (all + of - 1) / of; };
  const std::int64_t wave = std::max(1, multiprocessors * 3 / 4);
  const std::int64_t down = parts(std::max<std::int64_t>(rows, 1), block);
  const std::int64_t across = parts(std::max<std::int64_t>(columns, 1), block);
  std::int64_t best = 0, least = 0;
  for (std::int64_t height = parts(down, most_tiles); height <= parts(down, 2); ++height) {
    // The waves of all tiles; and the last one's share of what the kernel does with the product,
    // which takes about as long as making it.
    const std::int64_t waves = parts(height * across, wave) * (parts(down, height) + 1);
    if (best != 0 && waves >= least) continue;
    best = height;
    least = waves;
  }
  return best * block;
}

}  // namespace coconet::jit
