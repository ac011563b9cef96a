// Sizes of mailboxes and totals; their layout is that of the device prelude's mail.h and common.h.
#include "jit/bind/kernel_memory.h"

#include <algorithm>

#include "jit/exchange/algorithm.h"
#include "jit/platform/peer_memory.h"

namespace coconet::jit {

namespace {

constexpr std::size_t flag_bytes = 64;

}  // namespace

KernelMemory::KernelMemory(Comm& comm, const Platform& platform, const RankPlan& plan,
                           const sched::KernelStep& step, const Grid& grid) {
  const bool has_mail = step.is_collective && !step.in_place;
  const std::size_t reductions = step.reductions().size();
  if (!has_mail && reductions == 0) return;
  const std::size_t ranks = plan.group(step.axis).size();
  const auto blocks = static_cast<std::size_t>(grid.blocks);
  std::size_t bytes = 0;
  if (has_mail) {
    slices_ = plan.slices(step);
    size_mail(plan.plan(), step);
    const auto boxes =
        static_cast<std::size_t>(find_algorithm(step.knobs.algorithm).boxes) * ranks * blocks;
    bytes = boxes * (ranks + 1) * flag_bytes + boxes * mailbox_slots * slot_bytes_;
  }
  totals_at_ = bytes;
  bytes += 2 * reductions * ranks * blocks * sizeof(std::uint64_t);
  if (comm.size() == 1) {
    own_ = platform.allocate(bytes);
  } else if (platform.device() == nullptr) {
    of_ranks_ = comm.allocate(bytes);
  } else {
    if (has_mail && find_protocol(step.knobs.protocol).whole_lines)
      require_nvlink(comm, plan.group(step.axis), step.name);
    of_ranks_ = allocate_on_devices(comm, bytes);
  }
}

void KernelMemory::size_mail(const sched::Plan& plan, const sched::KernelStep& step) {
  const Algorithm& algorithm = find_algorithm(step.knobs.algorithm);
  chunk_ = chunk_of(plan, step);
  slot_bytes_ = find_protocol(step.knobs.protocol)
                    .slot_bytes(static_cast<std::size_t>(chunk_), mailed_size(plan, step));
  const std::int64_t longest =
      slices_.outer * slices_.block * slices_.inner;  // the first rank's slice
  const auto turns = static_cast<std::uint64_t>(algorithm.trees) * mailbox_slots;
  const auto numbers = static_cast<std::uint64_t>((longest + chunk_ - 1) / chunk_ + 1);
  chunks_ = (numbers + turns - 1) / turns * turns;
}

std::uint64_t KernelMemory::address(int rank, std::size_t offset) const {
  std::byte* const base = own_ ? own_->data() : of_ranks_->base(rank);
  return base == nullptr ? 0 : reinterpret_cast<std::uint64_t>(base + offset);
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
