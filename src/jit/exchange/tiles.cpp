// Orders of tiles.
#include "jit/exchange/tiles.h"

#include <algorithm>

#include "ir/indexed.h"

namespace coconet::jit {

namespace {

/// Calls visit(first, last) with the elements of the tensor that an exchange reads one chunk after
/// the other.
template <class Visit>
void visit_chunks(const ExchangeOrder& order, const Visit& visit) {
  const auto chunk_of = [&](int owner, int block, std::int64_t number) {
    return abi::chunk_range(order.slices.count(owner), order.lanes, block, order.blocks,
                            order.chunk, number);
  };
  std::int64_t chunks = 0;
  for (int owner = 0; owner < order.ranks; ++owner)
    chunks = std::max(chunks, chunk_of(owner, 0, 0).of);
  for (std::int64_t number = 0; number < chunks; ++number) {
    const int tree = static_cast<int>(number % order.algorithm.trees);
    for (int k = 0; k < order.ranks; ++k) {
      const int owner = k == order.ranks - 1
                            ? order.rank
                            : order.algorithm.up_owner(order.rank, k, order.ranks, tree);
      for (int block = 0; block < order.blocks; ++block) {
        const abi::Chunk chunk = chunk_of(owner, block, number);
        if (chunk.count <= 0) continue;
        std::int64_t room = 0;
        visit(abi::element_of(order.slices, owner, chunk.begin, room),
              abi::element_of(order.slices, owner, chunk.begin + chunk.count - 1, room));
      }
    }
  }
}

}  // namespace

std::vector<std::int64_t> tile_order(std::int64_t count, std::int64_t tile,
                                     const ExchangeOrder* taker) {
  Indexed<bool> listed((count + tile - 1) / tile, false);
  std::vector<std::int64_t> order;
  const auto list = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t number = first / tile; number <= last / tile; ++number) {
      if (!listed[number]) order.push_back(number);
      listed[number] = true;
    }
  };
  if (taker != nullptr) visit_chunks(*taker, list);
  if (count > 0) list(0, count - 1);
  return order;
}

}  // namespace coconet::jit
