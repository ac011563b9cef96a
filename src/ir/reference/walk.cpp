// Views from one part of a tensor into another.
#include "ir/reference/walk.h"

#include <fmt/format.h>

#include "coconet/error.h"

namespace coconet::ir {

View view_into(const Part& walked, const Part& stored, const Extents& stored_extents) {
  View view{0, Extents(walked.extent.size(), 0)};
  if (walked.count() == 0) return view;
  const std::size_t shift = walked.extent.size() - stored.extent.size();
  std::int64_t stride = 1;
  for (std::size_t d = stored.extent.size(); d-- > 0;) {
    const bool single = stored_extents[d] == 1;
    const std::int64_t first = single ? 0 : walked.begin[d + shift] - stored.begin[d];
    const std::int64_t length = single ? 1 : walked.extent[d + shift];
    if (first < 0 || first + length > stored.extent[d]) {
      throw InternalError(fmt::format(
          "reference: a rank reads elements {} to {} of a block of {} along dimension {}", first,
          first + length - 1, stored.extent[d], d));
    }
    if (!single) view.strides[d + shift] = stride;
    view.start += first * stride;
    stride *= stored.extent[d];
  }
  return view;
}

}  // namespace coconet::ir
