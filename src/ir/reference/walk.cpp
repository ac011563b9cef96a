// Views from one part of a tensor into another.
#include "ir/reference/walk.h"

#include <fmt/format.h>

#include "coconet/error.h"

namespace coconet::ir {

View view_into(const Part& walked, const Part& stored, const Factors& factors) {
  View view{0, Extents(walked.extent.size(), 0)};
  if (walked.count() == 0) return view;
  std::int64_t stride = 1;
  for (std::size_t d = stored.extent.size(); d-- > 0;) {
    if (factors[d].kind == Factor::Kind::passes) {
      const auto to = static_cast<std::size_t>(factors[d].of_result);
      const std::int64_t step = factors[d].step;
      const std::int64_t first = factors[d].begin + walked.begin[to] * step - stored.begin[d];
      const std::int64_t length = (walked.extent[to] - 1) * step + 1;
      if (first < 0 || first + length > stored.extent[d]) {
        throw InternalError(fmt::format(
            "reference: a rank reads elements {} to {} of a block of {} along dimension {}", first,
            first + length - 1, stored.extent[d], d));
      }
      view.strides[to] = stride * step;
      view.start += first * stride;
    }
    stride *= stored.extent[d];
  }
  return view;
}

View view_into(const Part& walked, const Part& stored) {
  Factors factors;
  for (std::size_t d = 0; d < stored.extent.size(); ++d)
    factors.push_back({Factor::Kind::passes, static_cast<int>(d)});
  return view_into(walked, stored, factors);
}

std::vector<std::int64_t> contracted_offsets(const Part& stored, const Factors& factors) {
  std::vector<std::int64_t> offsets{0};
  for (const std::size_t d : contracted_dims(factors)) {
    std::int64_t stride = 1;
    for (std::size_t inner = d + 1; inner < stored.extent.size(); ++inner)
      stride *= stored.extent[inner];
    std::vector<std::int64_t> longer;
    for (const std::int64_t outer : offsets) {
      for (std::int64_t i = 0; i < stored.extent[d]; ++i) longer.push_back(outer + i * stride);
    }
    offsets = std::move(longer);
  }
  return offsets;
}

}  // namespace coconet::ir
