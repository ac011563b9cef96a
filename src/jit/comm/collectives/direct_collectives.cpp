// Collectives by reading: where the other ranks' tensors are, and what each rank computes from the
// data of all.
#include "jit/comm/collectives/direct_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "coconet/error.h"
#include "jit/comm/collectives/combine.h"

namespace coconet::jit {

using ir::Op;

namespace {

/// `pointers`, all of them moved by `bytes`.
template <class Pointer>
std::vector<Pointer> advanced(std::span<const Pointer> pointers, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte, const std::byte>;
  std::vector<Pointer> moved;
  for (const Pointer pointer : pointers) moved.push_back(static_cast<Byte*>(pointer) + bytes);
  return moved;
}

/// Bytes that the rank with most of them shows the others, as all ranks know.
std::size_t most_shown(const CollectiveCall& call, int ranks) {
  std::size_t most = 0;
  for (int position = 0; position < ranks; ++position)
    most = std::max(most, call.shown(position, ranks));
  return most * size_of(call.dtype);
}

}  // namespace

void PeerAllocations::add(const std::shared_ptr<PeerMemory>& memory) {
  std::erase_if(allocations_, [](const Allocation& one) { return one.memory.expired(); });
  allocations_.push_back({++count_, memory});
}

Place PeerAllocations::find(const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const Allocation& one : allocations_) {
    const std::shared_ptr<PeerMemory> memory = one.memory.lock();
    if (!memory) continue;
    const auto base = reinterpret_cast<std::uintptr_t>(memory->base(memory->rank()));
    if (address >= base && address - base < memory->bytes()) return {one.number, address - base};
  }
  return {};
}

std::byte* PeerAllocations::at(const Place& place, int rank) const {
  const auto found = std::ranges::find(allocations_, place.allocation, &Allocation::number);
  if (found == allocations_.end())
    throw InternalError(fmt::format("peer memory {} is not in use", place.allocation));
  return found->memory.lock()->base(rank) + place.offset;
}

DirectCollectives::DirectCollectives(std::shared_ptr<Barrier> barrier, std::vector<int> ranks,
                                     std::vector<Board*> boards,
                                     std::shared_ptr<const PeerAllocations> allocations,
                                     std::shared_ptr<Collectives> large,
                                     std::shared_ptr<const CollectiveWays> ways)
    : barrier_(std::move(barrier)),
      ranks_(std::move(ranks)),
      boards_(std::move(boards)),
      allocations_(std::move(allocations)),
      large_(std::move(large)),
      ways_(std::move(ways)),
      ins_(ranks_.size()),
      outs_(ranks_.size()) {}

void DirectCollectives::run(Queue& queue, const CollectiveCall& call) {
  require_sane(call, size());
  if (call.by_mpi && large_) {
    large_->run(queue, call);
    return;
  }
  const std::size_t bytes = allocations_ ? most_shown(call, size()) : SIZE_MAX;
  // Copied, an all_reduce makes every rank read all of the other ranks' data.
  const std::size_t copied = std::min(ways_->copied_bytes, capacity);
  if (bytes > (call.op == Op::all_reduce ? copied / 2 : copied) && reaches(call)) {
    read(call, outs_);
    barrier_->wait(to_string(call.op), {}, call.given);
  } else if (bytes <= std::min(ways_->shared_bytes, capacity)) {
    copy(call);
    read(call, {});
  } else {
    large_->run(queue, call);
  }
}

bool DirectCollectives::reaches(const CollectiveCall& call) {
  // Threads reach everything, as if it were one allocation that begins at address 0.
  const auto find = [&](const void* data) {
    return allocations_ ? allocations_->find(data)
                        : Place{1, reinterpret_cast<std::uintptr_t>(data)};
  };
  const auto at = [&](const Place& place, int rank) {
    return allocations_ ? allocations_->at(place, rank)
                        : reinterpret_cast<std::byte*>(place.offset);  // NOLINT: see above
  };
  const std::size_t slot = barrier_->count() % 2;
  const bool reads = call.op != Op::broadcast || rank() == call.root;
  const auto& [in, out] = call.operands.front();
  boards_[rank()]->operands[slot] = {find(reads ? in : out), find(out)};
  barrier_->wait(to_string(call.op), {}, call.given);
  const Board::Operands first = boards_.front()->operands[slot];
  // In the same allocation on all ranks: then each of them holds it, and all decide alike.
  const bool reachable = std::ranges::all_of(boards_, [&](const Board* board) {
    const Board::Operands& operands = board->operands[slot];
    return operands.in.allocation != 0 && operands.in.allocation == first.in.allocation &&
           operands.out.allocation != 0 && operands.out.allocation == first.out.allocation;
  });
  for (int position = 0; reachable && position < size(); ++position) {
    const Board::Operands& operands = boards_[position]->operands[slot];
    ins_[position] = at(operands.in, ranks_[position]);
    outs_[position] = at(operands.out, ranks_[position]);
  }
  return reachable;
}

void DirectCollectives::copy(const CollectiveCall& call) {
  const std::size_t slot = barrier_->count() % 2;
  const std::size_t bytes = call.shown(rank(), size()) * size_of(call.dtype);
  if (bytes > 0) std::memcpy(boards_[rank()]->copies[slot].data(), call.operands.front().in, bytes);
  barrier_->wait(to_string(call.op), {}, call.given);
  std::ranges::transform(boards_, ins_.begin(),
                         [&](const Board* board) { return board->copies[slot].data(); });
}

void DirectCollectives::read(const CollectiveCall& call, std::span<void* const> outs) const {
  const std::size_t bytes = call.count * size_of(call.dtype);
  void* const out = call.operands.front().out;
  switch (call.op) {
    case Op::all_reduce:
      return combine_all(call, outs);
    case Op::reduce:
      if (!outs.empty()) return combine_all(call, outs.subspan(call.root, 1));
      if (rank() == call.root) combine_all(call, {});
      return;
    case Op::reduce_scatter: {
      const std::size_t start = block_starts(call.counts)[rank()] * size_of(call.dtype);
      return combine_in_order(call.dtype, call.reduction, advanced<const void*>(ins_, start),
                              call.counts[rank()], std::array{out});
    }
    case Op::all_gather:
    case Op::all_to_all:
      return take_blocks(call);
    case Op::broadcast:
      if (bytes > 0 && out != ins_[call.root]) std::memcpy(out, ins_[call.root], bytes);
      return;
    case Op::send: {
      const int from = rank() - call.offset;
      if (from >= 0 && from < size() && bytes > 0) std::memcpy(out, ins_[from], bytes);
      return;
    }
    default:
      throw_unknown(call);
  }
}

void DirectCollectives::combine_all(const CollectiveCall& call, std::span<void* const> outs) const {
  if (outs.empty()) {
    return combine_in_order(call.dtype, call.reduction, ins_, call.count,
                            std::array{call.operands.front().out});
  }
  const std::size_t ranks = size();
  const std::size_t line = 64 / size_of(call.dtype);  // of a cache: no two ranks write one
  const std::size_t lines = (call.count + line - 1) / line;
  const std::size_t share = (lines + ranks - 1) / ranks * line;
  const std::size_t first = std::min(call.count, share * rank());
  const std::size_t bytes = first * size_of(call.dtype);
  const std::size_t length = std::min(share, call.count - first);
  const std::vector<void*> to = advanced(outs, bytes);
  const bool streams = outs.size() > 1 && length * size_of(call.dtype) >= ways_->streamed_bytes;
  combine_in_order(call.dtype, call.reduction, advanced<const void*>(ins_, bytes), length, to,
                   streams ? to[rank()] : nullptr);
}

void DirectCollectives::take_blocks(const CollectiveCall& call) const {
  const std::size_t size = size_of(call.dtype);
  auto* to = static_cast<std::byte*>(call.operands.front().out);
  for (int from = 0; from < this->size(); ++from) {
    std::size_t start = 0;
    std::size_t count = call.counts[from];
    if (call.op == Op::all_to_all) {
      const auto row = call.counts.subspan(from * this->size(), this->size());
      start = block_starts(row)[rank()];
      count = row[rank()];
    }
    const auto* const in = static_cast<const std::byte*>(ins_[from]);
    if (count > 0) std::memcpy(to, in + start * size, count * size);
    to += count * size;
  }
}

}  // namespace coconet::jit
