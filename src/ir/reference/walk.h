// Walks over the elements of a part of a tensor and finds the same elements, by global index, in
// other parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/extents.h"
#include "ir/factors.h"

namespace coconet::ir {

/// Where the elements of one part lie in the storage of another: an offset, and a step per
/// dimension walked.
struct View {
  std::int64_t start = 0;
  Extents strides;
};

/// The view from `walked` into `stored`, the row-major part of a tensor whose dimensions are, to
/// `walked`, what `factors` says. Throws InternalError when `stored` lacks elements.
[[nodiscard]] View view_into(const Part& walked, const Part& stored, const Factors& factors);
/// Of two parts of one tensor.
[[nodiscard]] View view_into(const Part& walked, const Part& stored);
/// Offsets of the elements of `stored` that one element of the result combines, in order: along the
/// contracted dimensions.
[[nodiscard]] std::vector<std::int64_t> contracted_offsets(const Part& stored,
                                                           const Factors& factors);

/// Calls `body(n, offsets)` for the n-th element of `walked` in row-major order, with its offset in
/// every view.
template <std::size_t N, class Body>
void walk(const Part& walked, const std::array<View, N>& views, const Body& body) {
  std::array<std::int64_t, N> offsets;
  for (std::size_t v = 0; v < N; ++v) offsets[v] = views[v].start;
  Extents index(walked.extent.size(), 0);
  const std::int64_t count = walked.count();
  for (std::int64_t n = 0; n < count; ++n) {
    body(static_cast<std::size_t>(n), offsets);
    for (std::size_t d = index.size(); d-- > 0;) {
      const bool carry = ++index[d] == walked.extent[d];
      const std::int64_t steps = carry ? 1 - walked.extent[d] : 1;
      for (std::size_t v = 0; v < N; ++v) offsets[v] += steps * views[v].strides[d];
      if (!carry) break;
      index[d] = 0;
    }
  }
}

}  // namespace coconet::ir
