// Sizes of mailboxes and totals; how they are laid out is in jit/abi.
#include "jit/bind/exchange_memory.h"

#include "jit/bind/segments.h"
#include "jit/codegen/codegen.h"
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

ExchangeMemory::ExchangeMemory(Comm& comm, const Platform& platform, const RankPlan& plan,
                               const sched::KernelStep& step, const Grid& grid)
    : group_(plan.group(step.axis)) {
  const bool has_mailboxes = step.is_collective && !step.in_place;
  const TotalsOf totals = totals_of(plan.graph(), step);
  if (!has_mailboxes && !totals.counts_blocks) return;
  const int ranks = plan.ranks(step.axis);
  const bool is_lane = platform.traits().fixed_threads == 1;
  // What exchanges chunks has totals of blocks, which are as many as its messages say.
  shares_ = is_lane && step.in_place ? shares_of(plan.part_on(0, step.domain)) : grid.blocks;
  if (has_mailboxes) {
    slices_ = plan.slices(step);
    size_mailboxes(plan.plan(), step, ranks, grid.blocks);
    totals_at_ = mailbox_bytes(plan.plan(), step, ranks, grid.blocks);
  }
  bytes_ = totals_at_;
  if (totals.counts_blocks)
    bytes_ += abi::total_words(totals.whole, ranks, shares_) * sizeof(abi::u64);
  buffer_totals_at_ = bytes_;
  if (totals.per_buffer > 0) {
    const std::string& dim = plan.graph().at(step.domain).shape.front().name;
    const abi::index_t buffers = std::ssize(plan.lengths(dim));
    bytes_ += abi::buffer_total_words(totals.per_buffer, ranks, buffers) * sizeof(abi::u64);
  }
  if (comm.size() == 1) {
    own_ = platform.allocate(bytes_);
  } else {
    if (has_mailboxes && find_protocol(step.knobs.protocol).whole_lines)
      platform.require_whole_lines(comm, group_, step.name);
    shared_ = platform.allocate_peer(comm, bytes_);
  }
}

void ExchangeMemory::size_mailboxes(const sched::Plan& plan, const sched::KernelStep& step,
                                    int ranks, int blocks) {
  const std::int64_t chunk = chunk_elements(plan, step, ranks, blocks);
  const std::int64_t turns = find_algorithm(step.knobs.algorithm).trees * abi::SLOTS;
  // The first rank's slice is the longest.
  const std::int64_t longest = slices_.outer * slices_.block * slices_.inner;
  const std::int64_t numbers = (longest + chunk - 1) / chunk + 1;
  mailboxes_.chunk = chunk;
  mailboxes_.chunks = (numbers + turns - 1) / turns * turns;
  mailboxes_.slot_bytes =
      find_protocol(step.knobs.protocol).slot_bytes(chunk, mailed_size(plan, step));
}

std::vector<std::byte*> ExchangeMemory::of_ranks(std::size_t offset) const {
  std::vector<std::byte*> places;
  for (const int rank : group_) {
    std::byte* const base = own_ ? own_->data() : shared_->base(rank);
    places.push_back(base == nullptr ? nullptr : base + offset);
  }
  return places;
}

}  // namespace coconet::jit
