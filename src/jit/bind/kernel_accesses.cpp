// Alignment and amounts of a kernel's accesses.
#include "jit/bind/kernel_accesses.h"

#include <algorithm>

#include "jit/config/build_info.h"

namespace coconet::jit {
namespace {

/// From this size of a rank's slice on, stores to other ranks go past the caches: the lines are in
/// the other rank's cache or in none, and fetching them to overwrite them costs more than it saves.
/// Measured on 2 ranks of a Zen 3 with AVX2, fused Adam: a quarter more of the step's time at 512
/// KiB and 1 MiB, as much at 2 and 4, a tenth less from 8 to 32 MiB.
constexpr std::uint64_t streaming_bytes = 2 << 20;

bool is_aligned(const std::byte* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

}  // namespace

KernelAccesses::KernelAccesses(const RankPlan& plan, const sched::KernelStep& step,
                               const KernelText& text, const abi::Slices& slices)
    : plan_(plan),
      step_(step),
      in_rows_(!text.linear),
      row_dims_(static_cast<std::size_t>(text.row_dims)),
      by_bucket_(text.by_bucket),
      lanes_(lanes_of(plan.plan(), step, abi::GPU_VECTOR_BYTES)) {
  find_vectors(slices);
  count_bytes();
}

std::size_t KernelAccesses::alignment_of(sched::BufferId id) const {
  return std::min<std::size_t>(abi::GPU_VECTOR_BYTES, lanes_ * plan_.element_size(id));
}

void KernelAccesses::add_vectors(sched::BufferId id, const View& seen, bool of_peers) {
  const bool one_by_one = !in_rows_ || (!seen.strides.empty() && seen.strides.back() == 1);
  const std::size_t alignment = alignment_of(id);
  if (!one_by_one || alignment == 0 || by_bucket_) return;
  vectors_.push_back({id, of_peers, alignment});
  std::uint64_t offsets = seen.offset;
  for (std::size_t d = 0; in_rows_ && d + row_dims_ < seen.strides.size(); ++d) {
    if (plan_.domain(step_).extent[d] > 1) offsets |= seen.strides[d];
  }
  // The lowest set bit of all offsets divides each of them.
  if (offsets * plan_.element_size(id) % alignment != 0) aligned_in_tensors_ = false;
}

void KernelAccesses::add_slices(sched::BufferId id, const abi::Slices& slices) {
  // Slices of other ranks begin elsewhere; where rows matter, vectors begin at any element.
  const std::int64_t of_slices = slices.only >= 0 ? 0 : slices.block * slices.inner;
  const std::int64_t of_rows = slices.outer > 1 ? slices.extent * slices.inner : 0;
  const std::uint64_t strides = of_slices | of_rows;
  if (in_rows_ || strides * plan_.element_size(id) % alignment_of(id) != 0)
    aligned_in_tensors_ = false;
}

void KernelAccesses::find_vectors(const abi::Slices& slices) {
  if (step_.is_reduction()) {
    // Loops begin inside rows, too, at multiples of vectors.
    const ir::Part& domain = plan_.domain(step_);
    const std::int64_t row = row_of(domain, static_cast<int>(domain.extent.size() - row_dims_));
    if (in_rows_ && domain.count() > row && row % static_cast<std::int64_t>(lanes_) != 0)
      aligned_in_tensors_ = false;
    for (const auto& load : step_.loads()) {
      if (!gathers(load))
        add_vectors(load.buffer, plan_.view(step_, load.buffer, load.view()), false);
    }
    return;
  }
  const auto add = [&](sched::BufferId id, ir::ValueId view, bool exchanged) {
    add_vectors(id, plan_.view(step_, id, view), exchanged && step_.in_place);
    if (exchanged && has_mailboxes()) add_slices(id, slices);
  };
  for (const sched::KernelStep::Phase& phase : step_.phases) {
    for (const auto& load : phase.loads) {
      if (!gathers(load)) add(load.buffer, load.view(), load.combined);
    }
    for (const auto& store : phase.stores) add(store.buffer, -1, store.spread);
  }
}

std::uint64_t KernelAccesses::bytes_of(sched::BufferId id, const View& seen) const {
  std::uint64_t bytes = plan_.element_size(id);
  for (std::size_t d = 0; d < seen.strides.size(); ++d) {
    if (seen.strides[d] != 0) bytes *= plan_.domain(step_).extent[d];
  }
  return bytes;
}

void KernelAccesses::count_bytes() {
  const std::uint64_t ranks = plan_.ranks(step_.axis);
  for (const auto& load : step_.loads()) {
    const View seen = gathers(load) ? plan_.view_of_whole(step_, load.value)
                                    : plan_.view(step_, load.buffer, load.view());
    bytes_ += bytes_of(load.buffer, seen) * (load.combined ? ranks : 1);
  }
  for (const auto& store : step_.stores()) {
    const std::size_t size = plan_.element_size(store.buffer);
    if (step_.is_reduction()) {
      bytes_ += results_of(plan_.graph(), step_, plan_.domain(step_)).count * size;
      continue;
    }
    const View seen = plan_.view(step_, store.buffer);
    const std::uint64_t bytes = bytes_of(store.buffer, seen);
    bytes_ += bytes * (store.spread ? ranks : 1);
    if (!store.spread || !step_.in_place) continue;
    gathered_.push_back({store.buffer, seen.offset * size, bytes});
    for (std::size_t d = 0; in_rows_ && d + row_dims_ < seen.strides.size(); ++d) {
      if (plan_.domain(step_).extent[d] > 1 && seen.strides[d] * size % abi::HOST_VECTOR_BYTES != 0)
        rows_align_ = false;
    }
  }
}

std::uint64_t KernelAccesses::mode(const Tensors& tensors) const {
  return (can_vectorize(tensors) ? abi::VECTORIZE : std::uint64_t{0}) |
         (can_stream(tensors) ? abi::STREAMING : std::uint64_t{0});
}

bool KernelAccesses::can_vectorize(const Tensors& tensors) const {
  return aligned_in_tensors_ && std::ranges::all_of(vectors_, [&](const Vectors& access) {
           const Tensors::Tensor& tensor = tensors[access.buffer];
           if (!access.of_peers) return is_aligned(tensor.data(), access.alignment);
           return std::ranges::all_of(tensor.peers(), [&](const std::byte* peer) {
             return is_aligned(peer, access.alignment);
           });
         });
}

bool KernelAccesses::can_stream(const Tensors& tensors) const {
  if (!build_info::sanitize.empty()) return false;  // sanitizers see no streaming stores
  if (has_mailboxes()) return true;                 // which are aligned; kernels know the sizes
  if (!rows_align_ || gathered_.empty()) return false;
  return std::ranges::all_of(gathered_, [&](const Gathered& store) {
    if (store.bytes < streaming_bytes) return false;
    return by_bucket_ ||  // a kernel checks buckets itself
           std::ranges::all_of(tensors[store.buffer].peers(), [&](const std::byte* peer) {
             return is_aligned(peer + store.offset_bytes, abi::HOST_VECTOR_BYTES);
           });
  });
}

}  // namespace coconet::jit
