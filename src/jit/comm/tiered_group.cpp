// Chooses the way of a collective by the bytes that the rank with most of them has.
#include "jit/comm/tiered_group.h"

#include <algorithm>
#include <numeric>

namespace coconet::jit {

Group& TieredGroup::group_for(std::size_t count, DType dtype) const {
  return count <= capacity_ / size_of(dtype) ? *small_ : *large_;
}

void TieredGroup::all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                             Reduction reduction) {
  group_for(count, dtype).all_reduce(in, out, count, dtype, reduction);
}

void TieredGroup::reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts,
                                 DType dtype, Reduction reduction) {
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  group_for(all, dtype).reduce_scatter(in, out, counts, dtype, reduction);
}

void TieredGroup::all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                             DType dtype) {
  const std::size_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  group_for(most, dtype).all_gather(in, out, counts, dtype);
}

void TieredGroup::reduce(const void* in, void* out, std::size_t count, DType dtype,
                         Reduction reduction, int root) {
  group_for(count, dtype).reduce(in, out, count, dtype, reduction, root);
}

void TieredGroup::broadcast(void* data, std::size_t count, DType dtype, int root) {
  group_for(count, dtype).broadcast(data, count, dtype, root);
}

}  // namespace coconet::jit
