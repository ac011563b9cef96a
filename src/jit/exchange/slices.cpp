// Slices and chunks of exchanges; their layout is that of the device prelude's mail.h.
#include "jit/exchange/slices.h"

#include <algorithm>

#include "ir/extents.h"

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

Slices slices_of(const sched::Plan& plan, const sched::KernelStep& step, int rank,
                 const std::map<std::string, std::int64_t>& sizes) {
  const ir::Graph& graph = plan.graph;
  const ir::Node& collective = graph.at(step.combine >= 0 ? step.combine : step.spread);
  const ir::Node& operand = graph.at(collective.operands.front());
  const ir::Extents global = ir::global_extents(collective.shape, sizes);
  const bool scatters = collective.op == ir::Op::reduce_scatter;
  const bool gathers = collective.op == ir::Op::all_gather;
  const ir::Part whole =
      ir::part_of(graph.mesh, scatters ? operand.layout : collective.layout, global, rank);
  Slices slices;
  if (!scatters && !gathers) {
    slices.extent = slices.block = whole.count();
    slices.only = collective.op == ir::Op::send ? 0 : collective.attributes.root;
    return slices;
  }
  const auto axis = static_cast<std::size_t>(step.axis);
  const int dim = (scatters ? collective : operand).layout[axis].dim;
  for (int d = 0; d < static_cast<int>(whole.extent.size()); ++d) {
    const std::int64_t extent = whole.extent[static_cast<std::size_t>(d)];
    if (d < dim) slices.outer *= extent;
    if (d == dim) slices.extent = extent;
    if (d > dim) slices.inner *= extent;
  }
  const std::int64_t ranks = graph.mesh.axes()[axis].size;
  slices.block = (slices.extent + ranks - 1) / ranks;
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
