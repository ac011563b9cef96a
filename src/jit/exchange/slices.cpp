// Slices and chunks of exchanges; their layout is that of the device prelude's mail.h.
#include "jit/exchange/slices.h"

#include <algorithm>

namespace coconet::jit {

namespace {

/// Bytes of a chunk where no knob says otherwise: two of them, read and written, fit a core's first caches.
constexpr int default_chunk_bytes = 32 << 10;

std::size_t computation_size(DType dtype) {
  return is_16_bit(dtype) ? sizeof(float) : size_of(dtype);
}

}  // namespace

std::int64_t Slices::pieces(int rank) const {
  if (only >= 0) return rank == only ? extent : 0;
  return std::clamp<std::int64_t>(extent - block * rank, 0, block);
}

std::int64_t Slices::element(int rank, std::int64_t i) const {
  const std::int64_t run = pieces(rank) * inner;
  const std::int64_t first = only >= 0 ? 0 : block * rank * inner;
  return i / run * extent * inner + first + i % run;
}

std::vector<std::uint64_t> Slices::words() const {
  std::vector<std::uint64_t> words;
  for (const std::int64_t word : {outer, inner, extent, block, only})
    words.push_back(static_cast<std::uint64_t>(word));
  return words;
}

Slices slices_along(const ir::Extents& extents, int dim, int ranks) {
  Slices slices;
  for (int d = 0; d < static_cast<int>(extents.size()); ++d) {
    const std::int64_t extent = extents[static_cast<std::size_t>(d)];
    if (d < dim) slices.outer *= extent;
    if (d == dim) slices.extent = extent;
    if (d > dim) slices.inner *= extent;
  }
  slices.block = (slices.extent + ranks - 1) / ranks;
  return slices;
}

Slices slices_of_one(std::int64_t count, int owner) {
  Slices slices;
  slices.extent = slices.block = count;
  slices.only = owner;
  return slices;
}

std::size_t mailed_size(const sched::Plan& plan, const sched::KernelStep& step) {
  std::size_t size = 1;
  if (step.combine >= 0) size = computation_size(plan.graph.at(step.combine).dtype);
  if (step.spread >= 0) size = std::max(size, size_of(plan.graph.at(step.spread).dtype));
  return size;
}

std::int64_t chunk_of(const sched::Plan& plan, const sched::KernelStep& step) {
  const int bytes = step.knobs.chunk_bytes > 0 ? step.knobs.chunk_bytes : default_chunk_bytes;
  return bytes / static_cast<std::int64_t>(mailed_size(plan, step));
}

}  // namespace coconet::jit
