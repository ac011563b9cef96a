// Parts of tensors as boxes.
#include "jit/checkpoint/boxes.h"

#include <catch2/catch.hpp>

using namespace coconet;
using namespace coconet::jit;

TEST_CASE("two boxes have every element in common that is in both, in runs that are contiguous") {
  const ir::Part a{{1, 0, 2}, {3, 4, 5}}, b{{2, 1, 2}, {4, 3, 5}};
  int elements = 0, runs = 0;
  for_each_common_run(a, b, [&](std::int64_t in_a, std::int64_t in_b, std::int64_t count) {
    ++runs;
    for (std::int64_t i = 0; i < count; ++i, ++elements) {
      const auto of = [&](const ir::Part& part, std::int64_t at) {
        const std::int64_t last = part.extent[2], middle = part.extent[1];
        return ir::Extents{part.begin[0] + at / (last * middle), part.begin[1] + at / last % middle,
                           part.begin[2] + at % last};
      };
      CHECK(of(a, in_a + i) == of(b, in_b + i));
    }
  });
  CHECK(elements == 2 * 3 * 5);
  CHECK(runs == 2);
}

TEST_CASE("boxes of a single number, and those that do not meet") {
  int runs = 0;
  const auto count = [&](std::int64_t, std::int64_t, std::int64_t elements) {
    CHECK(elements == 1);
    ++runs;
  };
  for_each_common_run({{}, {}}, {{}, {}}, count);
  CHECK(runs == 1);
  for_each_common_run({{0}, {3}}, {{3}, {3}}, count);
  for_each_common_run({{0}, {0}}, {{0}, {3}}, count);
  CHECK(runs == 1);
}

TEST_CASE("boxes tile a whole when each element is in one of them") {
  using Parts = std::vector<ir::Part>;
  const auto tiles = [](const ir::Extents& whole, const Parts& parts) {
    return is_tiled(whole, parts);
  };
  CHECK(tiles({}, {{{}, {}}}));
  CHECK_FALSE(tiles({}, {}));
  CHECK(tiles({0, 5}, {}));
  CHECK(tiles({5}, {{{3}, {2}}, {{0}, {3}}}));
  CHECK_FALSE(tiles({5}, {{{3}, {2}}, {{0}, {2}}}));
  CHECK_FALSE(tiles({5}, {{{2}, {3}}, {{0}, {3}}}));
  CHECK_FALSE(tiles({5}, {{{0}, {3}}, {{0}, {3}}}));
  // A pinwheel, and the same with one blade moved.
  const Parts pinwheel{
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};
  CHECK(tiles({3, 3}, pinwheel));
  Parts moved = pinwheel;
  moved[2].begin = {1, 1};
  CHECK_FALSE(tiles({3, 3}, moved));
  // As many elements as the whole, but one twice and one never.
  CHECK_FALSE(tiles({2, 2}, {{{0, 0}, {1, 2}}, {{0, 0}, {1, 1}}, {{1, 1}, {1, 1}}}));
}
