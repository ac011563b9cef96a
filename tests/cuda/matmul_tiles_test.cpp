// Tiles of products fill waves of a GPU's multiprocessors.
#include "jit/platform/cuda/matmul_tiles.h"

#include <catch2/catch.hpp>

using coconet::jit::rows_of_gpu_tile;

TEST_CASE("tiles have as many blocks as make full waves") {
  // 32 x 8 blocks on the 99 multiprocessors that kernels leave of 132: three tiles of 11 x 8
  // are a wave each, where eight tiles of 4 x 8 would be eight waves for the work of three.
  CHECK(rows_of_gpu_tile(4096, 1024, 132) == 11 * 128);
  // Wide products have waves enough: an eighth each.
  CHECK(rows_of_gpu_tile(4096, 12288, 132) == 4 * 128);
}

TEST_CASE("a product of several rows of blocks has at least two tiles, one of few rows has one") {
  CHECK(rows_of_gpu_tile(300, 5, 4) == 2 * 128);
  CHECK(rows_of_gpu_tile(129, 1, 132) == 128);
  CHECK(rows_of_gpu_tile(128, 100000, 132) == 128);
  CHECK(rows_of_gpu_tile(1, 1, 1) == 128);
  CHECK(rows_of_gpu_tile(0, 0, 132) == 128);
}
