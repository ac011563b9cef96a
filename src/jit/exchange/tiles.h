// Tiles of tensors that a step hands on while it makes them: in which order they are made.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/abi/abi.h"
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

/// In which order a rank's exchange takes the elements of its tensor: chunk by chunk, slices in the
/// algorithm's order.
struct ExchangeOrder {
  const Algorithm& algorithm;
  abi::Slices slices;
  int rank, ranks;     ///< along the axis
  std::int64_t chunk;  ///< elements
  std::int64_t lanes;  ///< elements that a lane moves together
  int blocks;          ///< of the kernel
};

/// All tiles of a tensor of `count` elements, `tile` in each: those first that `taker` takes first,
/// if there is one.
[[nodiscard]] std::vector<std::int64_t> tile_order(std::int64_t count, std::int64_t tile,
                                                   const ExchangeOrder* taker);

}  // namespace coconet::jit
