// Collectives by reading: where the other ranks' tensors are, and what each rank computes from the
// data of all.
#include "jit/comm/collectives/direct_collectives.h"

#include <fmt/format.h>

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
    read(call, whole, outs_);
    barrier_->wait(to_string(call.op), {}, call.given);
  } else if (bytes <= std::min(ways_->shared_bytes, capacity)) {
    copy(call, whole);
    read(call, whole, {});
  } else if (large_) {
    large_->run(queue, call);
  } else {
    copy_in_pieces(call);
  }
}

void DirectCollectives::copy_in_pieces(const CollectiveCall& call) {
  const std::size_t ranks = size();
  const bool has_blocks_for_ranks = call.op == Op::reduce_scatter || call.op == Op::all_to_all;
  const std::size_t length = capacity / size_of(call.dtype) / (has_blocks_for_ranks ? ranks : 1);
  const std::size_t longest =
      call.counts.empty() ? call.count : *std::ranges::max_element(call.counts);
  std::size_t begin = 0;
  do {  // once at least: the ranks meet in every call
    const Piece piece{begin, length};
    copy(call, piece);
    read(call, piece, {});
    begin += length;
  } while (begin < longest);
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

void DirectCollectives::copy(const CollectiveCall& call, const Piece& piece) {
  const std::size_t slot = barrier_->count() % 2;
  const std::size_t size = size_of(call.dtype);
  const auto* in = static_cast<const std::byte*>(call.operands.front().in);
  std::byte* to = boards_[rank()]->copies[slot].data();
  const auto put = [&](std::size_t count) {  // the next block of the operand
    const std::size_t bytes = piece.of(count) * size;
    if (bytes > 0) std::memcpy(to, in + piece.begin * size, bytes);
    to += bytes;
    in += count * size;
  };
  if (call.op == Op::reduce_scatter) {
    std::ranges::for_each(call.counts, put);
  } else if (call.op == Op::all_to_all) {
    std::ranges::for_each(call.counts.subspan(rank() * this->size(), this->size()), put);
  } else {
    put(call.shown(rank(), this->size()));
  }
  barrier_->wait(to_string(call.op), {}, call.given);
  std::ranges::transform(boards_, ins_.begin(),
                         [&](const Board* board) { return board->copies[slot].data(); });
}

void DirectCollectives::read(const CollectiveCall& call, const Piece& piece,
                             std::span<void* const> outs) const {
  const std::size_t size = size_of(call.dtype);
  const std::size_t count = piece.of(call.count);
  const auto out = [&] {  // there may be none where this rank gets nothing
    return static_cast<std::byte*>(call.operands.front().out) + piece.begin * size;
  };
  switch (call.op) {
    case Op::all_reduce:
      if (!outs.empty()) return combine_shares(call, count, outs);
      return combine_in_order(call.dtype, call.reduction, ins_, count, std::array<void*, 1>{out()});
    case Op::reduce:
      if (!outs.empty()) return combine_shares(call, count, outs.subspan(call.root, 1));
      if (rank() != call.root) return;
      return combine_in_order(call.dtype, call.reduction, ins_, count, std::array<void*, 1>{out()});
    case Op::reduce_scatter: {
      std::size_t start = 0;
      for (int before = 0; before < rank(); ++before) start += piece.of(call.counts[before]);
      return combine_in_order(call.dtype, call.reduction, advanced<const void*>(ins_, start * size),
                              piece.of(call.counts[rank()]), std::array<void*, 1>{out()});
    }
    case Op::all_gather:
    case Op::all_to_all:
      return take_blocks(call, piece);
    case Op::broadcast:
      if (count > 0 && out() != ins_[call.root]) std::memcpy(out(), ins_[call.root], count * size);
      return;
    case Op::send: {
      const int from = rank() - call.offset;
      if (from >= 0 && from < this->size() && count > 0)
        std::memcpy(out(), ins_[from], count * size);
      return;
    }
    default:
      throw_unknown(call);
  }
}

void DirectCollectives::combine_shares(const CollectiveCall& call, std::size_t count,
                                       std::span<void* const> outs) const {
  const std::size_t ranks = size();
  const std::size_t line = 64 / size_of(call.dtype);  // of a cache: no two ranks write one
  const std::size_t lines = (count + line - 1) / line;
  const std::size_t share = (lines + ranks - 1) / ranks * line;
  const std::size_t first = std::min(count, share * rank());
  const std::size_t bytes = first * size_of(call.dtype);
  const std::size_t length = std::min(share, count - first);
  const std::vector<void*> to = advanced(outs, bytes);
  const bool streams = outs.size() > 1 && length * size_of(call.dtype) >= ways_->streamed_bytes;
  combine_in_order(call.dtype, call.reduction, advanced<const void*>(ins_, bytes), length, to,
                   streams ? to[rank()] : nullptr);
}

void DirectCollectives::take_blocks(const CollectiveCall& call, const Piece& piece) const {
  const std::size_t size = size_of(call.dtype);
  auto* to = static_cast<std::byte*>(call.operands.front().out);
  for (int from = 0; from < this->size(); ++from) {
    std::size_t start = 0;
    std::size_t count = call.counts[from];
    if (call.op == Op::all_to_all) {
      const auto row = call.counts.subspan(from * this->size(), this->size());
      for (int before = 0; before < rank(); ++before) start += piece.of(row[before]);
      count = row[rank()];
    }
    const auto* const in = static_cast<const std::byte*>(ins_[from]) + start * size;
    const std::size_t bytes = piece.of(count) * size;
    if (bytes > 0) std::memcpy(to + piece.begin * size, in, bytes);
    to += count * size;
  }
}

}  // namespace coconet::jit
