// Sizes of mailboxes and totals; their layout is that of the device prelude's mail.h and common.h.
#include "jit/kernel_memory.h"

#include <algorithm>

#include "ir/extents.h"
#include "jit/algo/algorithm.h"
#include "jit/comm/cuda_memory.h"

namespace coconet::jit {

namespace {

constexpr std::size_t flag_bytes = 64;

/// Bytes of a chunk where no knob says otherwise: two of them, read and written, fit a core's first caches.
constexpr int default_chunk_bytes = 32 << 10;

std::size_t computation_size(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? sizeof(float) : size_of(dtype);
}

}  // namespace

KernelMemory::KernelMemory(Comm& comm, const Backend& backend, const sched::Plan& plan,
                           const sched::KernelStep& step, const Grid& grid,
                           const std::map<std::string, std::int64_t>& sizes) {
  const bool has_mail = step.is_collective && !step.in_place;
  const std::size_t reductions = step.reductions().size();
  if (!has_mail && reductions == 0) return;
  const auto ranks =
      static_cast<std::size_t>(plan.graph.mesh.axes()[static_cast<std::size_t>(step.axis)].size);
  const auto blocks = static_cast<std::size_t>(grid.blocks);
  std::size_t bytes = 0;
  if (has_mail) {
    find_slices(plan, step, comm.rank(), sizes);
    size_mail(plan, step);
    const auto boxes =
        static_cast<std::size_t>(find_algorithm(step.knobs.algorithm).boxes) * ranks * blocks;
    bytes = boxes * (ranks + 1) * flag_bytes + boxes * mailbox_slots * slot_bytes_;
  }
  totals_at_ = bytes;
  bytes += 2 * reductions * ranks * blocks * sizeof(std::uint64_t);
  if (comm.size() == 1) {
    own_ = backend.allocate(bytes);
  } else if (backend.device() == nullptr) {
    of_ranks_ = comm.allocate(bytes);
  } else {
    of_ranks_ = allocate_on_devices(comm, bytes);
  }
}

void KernelMemory::find_slices(const sched::Plan& plan, const sched::KernelStep& step, int rank,
                               const std::map<std::string, std::int64_t>& sizes) {
  const ir::Graph& graph = plan.graph;
  const ir::Node& collective = graph.at(step.combine >= 0 ? step.combine : step.spread);
  const ir::Node& operand = graph.at(collective.operands.front());
  const ir::Extents global = ir::global_extents(collective.shape, sizes);
  const bool scatters = collective.op == ir::Op::reduce_scatter;
  const bool gathers = collective.op == ir::Op::all_gather;
  const ir::Part whole =
      ir::part_of(graph.mesh, scatters ? operand.layout : collective.layout, global, rank);
  if (!scatters && !gathers) {
    extent_ = block_ = whole.count();
    only_ = collective.op == ir::Op::send ? 0 : collective.attributes.root;
    return;
  }
  const auto axis = static_cast<std::size_t>(step.axis);
  const int dim = (scatters ? collective : operand).layout[axis].dim;
  for (int d = 0; d < static_cast<int>(whole.extent.size()); ++d) {
    const std::int64_t extent = whole.extent[static_cast<std::size_t>(d)];
    if (d < dim) outer_ *= extent;
    if (d == dim) extent_ = extent;
    if (d > dim) inner_ *= extent;
  }
  const std::int64_t ranks = graph.mesh.axes()[axis].size;
  block_ = (extent_ + ranks - 1) / ranks;
}

void KernelMemory::size_mail(const sched::Plan& plan, const sched::KernelStep& step) {
  const Algorithm& algorithm = find_algorithm(step.knobs.algorithm);
  std::size_t size = 1;
  if (step.combine >= 0) size = computation_size(plan.graph.at(step.combine).dtype);
  if (step.spread >= 0) size = std::max(size, size_of(plan.graph.at(step.spread).dtype));
  const int bytes = step.knobs.chunk_bytes > 0 ? step.knobs.chunk_bytes : default_chunk_bytes;
  chunk_ = bytes / static_cast<std::int64_t>(size);
  slot_bytes_ =
      find_protocol(step.knobs.protocol).slot_bytes(static_cast<std::size_t>(chunk_), size);
  const std::int64_t longest = outer_ * block_ * inner_;  // the first rank's slice
  const auto turns = static_cast<std::uint64_t>(algorithm.trees) * mailbox_slots;
  const auto numbers = static_cast<std::uint64_t>((longest + chunk_ - 1) / chunk_ + 1);
  chunks_ = (numbers + turns - 1) / turns * turns;
}

std::uint64_t KernelMemory::address(int rank, std::size_t offset) const {
  std::byte* const base = own_ ? own_->data() : of_ranks_->base(rank);
  return reinterpret_cast<std::uint64_t>(base + offset);
}

std::vector<std::uint64_t> KernelMemory::slices_words() const {
  std::vector<std::uint64_t> words;
  for (const std::int64_t word : {outer_, inner_, extent_, block_, only_})
    words.push_back(static_cast<std::uint64_t>(word));
  return words;
}

std::vector<std::uint64_t> KernelMemory::mail_words(const std::vector<int>& group) const {
  std::vector<std::uint64_t> words;
  for (const int rank : group) words.push_back(address(rank, 0));
  for (const std::uint64_t word :
       {std::uint64_t{0}, chunks_, static_cast<std::uint64_t>(chunk_), std::uint64_t{slot_bytes_}})
    words.push_back(word);
  return words;
}

std::vector<std::uint64_t> KernelMemory::totals_words(const std::vector<int>& group) const {
  std::vector<std::uint64_t> words;
  for (const int rank : group) words.push_back(address(rank, totals_at_));
  words.push_back(0);
  return words;
}

}  // namespace coconet::jit
