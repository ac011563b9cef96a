// Slices and chunks of exchanges.
#include "jit/exchange/slices.h"

#include <algorithm>

namespace coconet::jit {

namespace {

/// Bytes of a chunk where no knob says otherwise: two of them, read and written, fit a core's first
/// caches.
constexpr int default_chunk_bytes = 32 << 10;

std::size_t computation_size(DType dtype) {
  return is_16_bit(dtype) ? sizeof(float) : size_of(dtype);
}

}  // namespace

abi::Slices slices_along(const ir::Extents& extents, int dim, int ranks) {
  abi::Slices slices{.outer = 1, .inner = 1, .extent = 0, .block = 0, .only = -1};
  for (int d = 0; d < static_cast<int>(extents.size()); ++d) {
    const std::int64_t extent = extents[static_cast<std::size_t>(d)];
    if (d < dim) slices.outer *= extent;
    if (d == dim) slices.extent = extent;
    if (d > dim) slices.inner *= extent;
  }
  slices.block = (slices.extent + ranks - 1) / ranks;
  return slices;
}

abi::Slices slices_of_one(std::int64_t count, int owner) {
  return {.outer = 1, .inner = 1, .extent = count, .block = count, .only = owner};
}

std::size_t mailed_size(const sched::Plan& plan, const sched::KernelStep& step) {
  std::size_t size = 1;
  if (step.combine >= 0) size = computation_size(plan.graph.at(step.combine).dtype);
  if (step.spread >= 0) size = std::max(size, size_of(plan.graph.at(step.spread).dtype));
  return size;
}

std::int64_t chunk_elements(const sched::Plan& plan, const sched::KernelStep& step) {
  const int bytes = step.knobs.chunk_bytes > 0 ? step.knobs.chunk_bytes : default_chunk_bytes;
  return bytes / static_cast<std::int64_t>(mailed_size(plan, step));
}

}  // namespace coconet::jit
