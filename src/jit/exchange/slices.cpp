// Slices and chunks of exchanges, and sizes of mailboxes.
#include "jit/exchange/slices.h"

#include <algorithm>

#include "jit/exchange/algorithm.h"

namespace coconet::jit {

namespace {

/// Bytes of a chunk where no knob says otherwise. Two of the largest, read and written, fit a
/// core's first caches; 256 threads have two vectors each of the smallest.
constexpr int most_chunk_bytes = 32 << 10;
constexpr int least_chunk_bytes = 8 << 10;

std::size_t computation_size(DType dtype) {
  return is_16_bit(dtype) ? sizeof(float) : size_of(dtype);
}

/// Bytes of the mailboxes of a rank, for chunks of `chunk_bytes`.
std::int64_t bytes_with(const sched::Plan& plan, const sched::KernelStep& step, int ranks,
                        int blocks, int chunk_bytes) {
  const auto size = static_cast<std::int64_t>(mailed_size(plan, step));
  const abi::MailboxLayout layout{.boxes = find_algorithm(step.knobs.algorithm).boxes * ranks,
                                  .ranks = ranks,
                                  .blocks = blocks};
  return layout.bytes(find_protocol(step.knobs.protocol).slot_bytes(chunk_bytes / size, size));
}

int chunk_bytes(const sched::Plan& plan, const sched::KernelStep& step, int ranks, int blocks) {
  if (step.knobs.chunk_bytes > 0) return step.knobs.chunk_bytes;
  int bytes = most_chunk_bytes;
  while (bytes > least_chunk_bytes && bytes_with(plan, step, ranks, blocks, bytes) > mailbox_budget)
    bytes /= 2;
  return bytes;
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
  slices.block = block_length(slices.extent, ranks);
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

std::int64_t chunk_elements(const sched::Plan& plan, const sched::KernelStep& step, int ranks,
                            int blocks) {
  return chunk_bytes(plan, step, ranks, blocks) /
         static_cast<std::int64_t>(mailed_size(plan, step));
}

std::int64_t mailbox_bytes(const sched::Plan& plan, const sched::KernelStep& step, int ranks,
                           int blocks) {
  if (!step.is_collective || step.in_place) return 0;
  return bytes_with(plan, step, ranks, blocks, chunk_bytes(plan, step, ranks, blocks));
}

int blocks_in_budget(const sched::Plan& plan, const sched::KernelStep& step, int ranks) {
  if (!step.is_collective || step.in_place) return abi::MAX_BLOCKS;
  const int bytes = step.knobs.chunk_bytes > 0 ? step.knobs.chunk_bytes : least_chunk_bytes;
  const std::int64_t of_one = bytes_with(plan, step, ranks, 1, bytes);
  return static_cast<int>(std::clamp<std::int64_t>(mailbox_budget / of_one, 1, abi::MAX_BLOCKS));
}

}  // namespace coconet::jit
