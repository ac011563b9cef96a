// Chooses the way of a collective by the bytes that the rank with most of them has, and by where they are.
#include "jit/comm/collectives/tiered_group.h"

#include <algorithm>
#include <numeric>

namespace coconet::jit {

Group& TieredGroup::group_for(std::string_view call, std::size_t bytes, const void* in,
                              const void* out) const {
  // Copied, an all_reduce makes every rank read all of the other ranks' data.
  if (bytes <= (call == "all_reduce" ? always_copied / 2 : always_copied)) return *small_;
  if (direct_->reaches(call, in, out)) return *direct_;
  return bytes <= CopyGroup::capacity ? *small_ : *large_;
}

void TieredGroup::all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                             Reduction reduction) {
  group_for("all_reduce", count * size_of(dtype), in, out)
      .all_reduce(in, out, count, dtype, reduction);
}

void TieredGroup::reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts,
                                 DType dtype, Reduction reduction) {
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  group_for("reduce_scatter", all * size_of(dtype), in, out)
      .reduce_scatter(in, out, counts, dtype, reduction);
}

void TieredGroup::all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                             DType dtype) {
  const std::size_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  group_for("all_gather", most * size_of(dtype), in, out).all_gather(in, out, counts, dtype);
}

void TieredGroup::reduce(const void* in, void* out, std::size_t count, DType dtype,
                         Reduction reduction, int root) {
  group_for("reduce", count * size_of(dtype), in, out)
      .reduce(in, out, count, dtype, reduction, root);
}

void TieredGroup::broadcast(void* data, std::size_t count, DType dtype, int root) {
  group_for("broadcast", count * size_of(dtype), data, data).broadcast(data, count, dtype, root);
}

void TieredGroup::shift(const void* in, void* out, std::size_t count, DType dtype, int offset) {
  group_for("send", count * size_of(dtype), in, out).shift(in, out, count, dtype, offset);
}

}  // namespace coconet::jit
