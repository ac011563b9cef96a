// Deterministic data for runs and checks: each element is a function of a seed, the tensor's name
// and its place in the whole tensor, so that every rank, every layout and the reference agree on
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "ir/extents.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "ir/reference/reference.h"

namespace coconet::cli {

/// A stretch of a rank's part of a tensor that is contiguous both in the part and in the whole
/// tensor.
struct Stretch {
  const ir::Extents& index;  ///< of its first element, in the whole tensor
  std::int64_t in_part;      ///< row-major position in the part
  std::int64_t in_whole;     ///< row-major position in the whole tensor
  std::int64_t length;
};

/// Visits the elements of `part` in row-major order.
void for_each_stretch(const ir::Part& part, const ir::Extents& global,
                      const std::function<void(const Stretch&)>& visit);

/// Row-major position in `part` of the element at `index` of the whole tensor, which must be in it;
/// -1 when not.
[[nodiscard]] std::int64_t position_in(const ir::Part& part, const ir::Extents& index);

/// The elements that `rank` holds of the input or state `id`, before rounding to its dtype. They
/// depend on the rank only along axes where the tensor is local. Floats: an input is +-[1/8, 1), so
/// that gradients are neither large nor tiny; a state is [0.1, 1), so that a second moment has a
/// root. Integers: small. `iteration` changes inputs only.
[[nodiscard]] ir::Data test_data(const ir::Graph& graph, ir::ValueId id, const ir::Sizes& sizes,
                                 int rank, std::uint64_t seed, std::uint64_t iteration);

/// Lists of buffers for the dimensions whose buffers `graph` tells apart, as uneven as those
/// of a model: each buffer a third of what is left of the extent, down to 1.
[[nodiscard]] ir::Lists test_lists(const ir::Graph& graph, const ir::Sizes& sizes);

}  // namespace coconet::cli
