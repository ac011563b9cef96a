// Collectives by reading: where the other ranks' tensors are, and what each rank computes from the
// data of all.
#include "jit/comm/collectives/direct_collectives.h"

#include <fmt/format.h>

#include <cstring>

#include "coconet/error.h"
#include "jit/comm/collectives/combine.h"
#include "jit/comm/worlds/core_pool.h"

namespace coconet::jit {

using ir::Op;

namespace {

/// Bytes that the rank with most of them shows the others, as all ranks know.
std::size_t most_shown(const CollectiveCall& call, int ranks) {
  std::size_t most = 0;
  for (int position = 0; position < ranks; ++position)
    most = std::max(most, call.shown(position, ranks));
  return most * size_of(call.dtype);
}

/// The elements of each block of the operand of the rank at `position`.
std::span<const std::size_t> blocks_of(const CollectiveCall& call, int position, int ranks) {
  if (call.op == Op::all_to_all) return call.counts.subspan(position * ranks, ranks);
  if (call.op == Op::all_gather) return call.counts.subspan(position, 1);
  if (call.op == Op::reduce_scatter) return call.counts;
  return {&call.count, 1};
}

/// Whether a block of an operand is for the rank of its number.
bool has_blocks_for_ranks(const CollectiveCall& call) {
  return call.op == Op::reduce_scatter || call.op == Op::all_to_all;
}

/// Results that no cache holds until they are read: they need not be fetched to be overwritten.
constexpr std::size_t uncached_bytes = std::size_t{4} << 20;

/// Bytes that are worth another core, and a line of the caches, of which no two cores write one.
constexpr std::size_t of_a_core = std::size_t{64} << 10, line_bytes = 64;

void copy(const CollectiveCall& call, const Destination& to, const std::byte* from,
          std::size_t bytes) {
  spread(call.cores, bytes, of_a_core, line_bytes, [&](std::size_t begin, std::size_t length) {
    copy_to({static_cast<std::byte*>(to.data) + begin, to.past_caches}, from + begin, length);
  });
}

}  // namespace

void PeerAllocations::add(const std::shared_ptr<PeerMemory>& memory) {
  std::erase_if(allocations_, [](const Allocation& one) { return one.memory.expired(); });
  allocations_.push_back({++count_, reinterpret_cast<std::uintptr_t>(memory->base(memory->rank())),
                          memory->bytes(), memory});
}

Place PeerAllocations::find(const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const Allocation& one : allocations_) {
    const bool is_inside = address >= one.begin && address - one.begin < one.bytes;
    if (is_inside && !one.memory.expired()) return {one.number, address - one.begin};
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
                                     std::shared_ptr<Collectives> by_mpi,
                                     std::shared_ptr<const std::optional<CollectiveWays>> ways)
    : barrier_(std::move(barrier)),
      ranks_(std::move(ranks)),
      boards_(std::move(boards)),
      allocations_(std::move(allocations)),
      by_mpi_(std::move(by_mpi)),
      ways_(std::move(ways)),
      ins_(ranks_.size()),
      outs_(ranks_.size()) {}

void DirectCollectives::run_all(Queue& queue, std::span<const CollectiveCall> calls) {
  for (const CollectiveCall& call : calls) require_sane(call, size());
  if (!calls.empty() && calls.front().by_mpi && by_mpi_) {
    by_mpi_->run_all(queue, calls);
    return;
  }
  for (std::size_t begin = 0; begin < calls.size(); begin += most_calls)
    run_together(calls.subspan(begin, std::min(most_calls, calls.size() - begin)));
}

void DirectCollectives::run_together(std::span<const CollectiveCall> calls) {
  std::size_t bytes = allocations_ ? 0 : SIZE_MAX;
  for (std::size_t i = 0; allocations_ && i < calls.size(); ++i)
    bytes += most_shown(calls[i], size());
  if (bytes <= ways().copied_bytes) {
    run_in_pieces(calls);
    return;
  }
  const CollectiveCall& first = calls.front();
  const std::size_t slot = barrier_->count() % 2;
  show_operands(calls);
  unreached_.clear();
  for (std::size_t number = 0; number < calls.size(); ++number) {
    if (!reaches(number, slot)) {
      unreached_.push_back(calls[number]);
      continue;
    }
    find_operands(number, slot);
    run_in_place(calls[number]);
  }
  if (unreached_.empty()) {
    barrier_->wait(to_string(first.op), {}, first.given);
  } else {
    run_in_pieces(unreached_);  // where the ranks meet, too
  }
}

void DirectCollectives::run_in_place(const CollectiveCall& call) {
  shows_copies_ = false;
  const bool reduces = call.op == Op::all_reduce || call.op == Op::reduce;
  if (reduces && divides(call, call.count)) {
    const Share share = share_of(rank(), call.count, call.dtype);
    const std::size_t at = share.begin * size_of(call.dtype);
    const std::size_t bytes = share.length * size_of(call.dtype);
    parts_.clear();
    for (const std::byte* const in : ins_) parts_.push_back(in + at);
    destinations_.clear();
    for (int position = 0; position < size(); ++position) {
      if (call.op == Op::reduce && position != call.root) continue;
      const bool is_own = position == rank();
      destinations_.push_back(
          {outs_[position] + at, is_own ? bytes >= uncached_bytes : streams(bytes)});
    }
    combine(call, share.length);
  } else {
    take(call, whole);
  }
}

void DirectCollectives::run_in_pieces(std::span<const CollectiveCall> calls) {
  shows_copies_ = true;
  shown_.clear();  // of a call that was refused
  std::size_t room = capacity;
  for (const CollectiveCall& call : calls) {
    const std::size_t blocks = has_blocks_for_ranks(call) ? size() : 1;
    const std::size_t length = capacity / size_of(call.dtype) / blocks;
    const std::size_t longest =
        call.counts.empty() ? call.count : *std::ranges::max_element(call.counts);
    const bool reduces = call.op == Op::all_reduce || call.op == Op::reduce;
    std::size_t begin = 0;
    do {
      const Piece piece{begin, length};
      const std::size_t bytes = piece.of(longest) * blocks * size_of(call.dtype);
      const bool in_shares = reduces && divides(call, piece.of(call.count));
      if (in_shares || bytes > room) {
        if (!shown_.empty()) exchange();
        room = capacity;
      }
      if (in_shares) {
        reduce_in_shares(call, piece);
      } else {
        shown_.push_back({&call, piece});
        room -= bytes;
      }
      begin += length;
    } while (begin < longest);
  }
  if (!shown_.empty()) exchange();  // the ranks have met once at least
}

DirectCollectives::Share DirectCollectives::share_of(int position, std::size_t count,
                                                     DType dtype) const {
  const std::size_t ranks = size();
  const std::size_t line = line_bytes / size_of(dtype);  // no two ranks write one
  const std::size_t lines = (count + line - 1) / line;
  const std::size_t most = (lines + ranks - 1) / ranks * line;
  const std::size_t begin = std::min(count, most * position);
  return {begin, std::min(most, count - begin)};
}

// A rank that combines all reads every other rank's operand; one of the shares reads and writes as
// many lines of two ranks, and reads half of its result again where the other one wrote it.
bool DirectCollectives::divides(const CollectiveCall& call, std::size_t count) const {
  const std::size_t ranks = size();
  const std::size_t share = count * size_of(call.dtype) / ranks;
  constexpr std::size_t of_two = std::size_t{16} << 10, of_more = std::size_t{2} << 10;
  return call.op == Op::all_reduce && ranks <= 2 ? share >= of_two : share > of_more;
}

void DirectCollectives::show_operands(std::span<const CollectiveCall> calls) {
  // Threads reach everything, as if it were one allocation that begins at address 0.
  const auto find = [&](const void* data) {
    return allocations_ ? allocations_->find(data)
                        : Place{1, reinterpret_cast<std::uintptr_t>(data)};
  };
  const std::size_t slot = barrier_->count() % 2;
  for (std::size_t number = 0; number < calls.size(); ++number) {
    const CollectiveCall& call = calls[number];
    const bool reads = call.op != Op::broadcast || rank() == call.root;
    const auto& [in, out] = call.operands.front();
    boards_[rank()]->operands[slot][number] = {find(reads ? in : out), find(out)};
  }
  barrier_->wait(to_string(calls.front().op), {}, calls.front().given);
}

bool DirectCollectives::reaches(std::size_t number, std::size_t slot) const {
  // In the same allocation on all ranks: then each of them holds it, and all decide alike.
  const Board::Operands& first = boards_.front()->operands[slot][number];
  return std::ranges::all_of(boards_, [&](const Board* board) {
    const Board::Operands& operands = board->operands[slot][number];
    return operands.in.allocation != 0 && operands.in.allocation == first.in.allocation &&
           operands.out.allocation != 0 && operands.out.allocation == first.out.allocation;
  });
}

void DirectCollectives::find_operands(std::size_t number, std::size_t slot) {
  const auto at = [&](const Place& place, int rank) {
    return allocations_ ? allocations_->at(place, rank)
                        : reinterpret_cast<std::byte*>(place.offset);  // NOLINT: see above
  };
  for (int position = 0; position < size(); ++position) {
    const Board::Operands& operands = boards_[position]->operands[slot][number];
    ins_[position] = at(operands.in, ranks_[position]);
    outs_[position] = at(operands.out, ranks_[position]);
  }
}

void DirectCollectives::exchange() {
  const std::size_t slot = barrier_->count() % 2;
  std::byte* to = boards_[rank()]->copies[slot].data();
  for (const auto& [call, piece] : shown_) to = show(*call, piece, to);
  const CollectiveCall& first = *shown_.front().call;
  barrier_->wait(to_string(first.op), {}, first.given);
  copies_.clear();
  for (Board* const board : boards_) copies_.push_back(board->copies[slot].data());
  for (const auto& [call, piece] : shown_) {
    std::ranges::copy(copies_, ins_.begin());
    take(*call, piece);
    if (&call == &shown_.back().call) break;  // no piece is behind it in the copies
    for (int position = 0; position < size(); ++position) {
      const std::size_t blocks = blocks_of(*call, position, size()).size();
      for (std::size_t block = 0; is_read(*call, position) && block < blocks; ++block)
        copies_[position] += shown_bytes(*call, piece, position, block);
    }
  }
  shown_.clear();
}

bool DirectCollectives::is_read(const CollectiveCall& call, int position) const {
  return call.shown(position, size()) > 0 && (call.op != Op::reduce || position != call.root);
}

std::size_t DirectCollectives::shown_bytes(const CollectiveCall& call, const Piece& piece,
                                           int position, std::size_t block) const {
  const bool is_own = has_blocks_for_ranks(call) && static_cast<int>(block) == position;
  return is_own ? 0 : piece.of(blocks_of(call, position, size())[block]) * size_of(call.dtype);
}

std::byte* DirectCollectives::show(const CollectiveCall& call, const Piece& piece,
                                   std::byte* to) const {
  if (!is_read(call, rank())) return to;
  const std::size_t size = size_of(call.dtype);
  const auto* in = static_cast<const std::byte*>(call.operands.front().in);
  const std::span<const std::size_t> blocks = blocks_of(call, rank(), this->size());
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const std::size_t bytes = shown_bytes(call, piece, rank(), block);
    if (bytes > 0) copy(call, {to, streams(bytes)}, in + piece.begin * size, bytes);
    to += bytes;
    in += blocks[block] * size;
  }
  return to;
}

void DirectCollectives::reduce_in_shares(const CollectiveCall& call, const Piece& piece) {
  const std::size_t size = size_of(call.dtype);
  const std::size_t count = piece.of(call.count);
  const auto* const in =
      static_cast<const std::byte*>(call.operands.front().in) + piece.begin * size;
  const bool receives = call.op == Op::all_reduce || rank() == call.root;
  std::byte* const out =
      receives ? static_cast<std::byte*>(call.operands.front().out) + piece.begin * size : nullptr;
  const Share mine = share_of(rank(), count, call.dtype);
  const std::size_t at = mine.begin * size, bytes = mine.length * size;
  const auto copy_of = [&](int position, std::size_t slot) {
    return boards_[position]->copies[slot].data();
  };

  std::size_t slot = barrier_->count() % 2;
  std::byte* const shown = copy_of(rank(), slot);
  copy(call, {shown, streams(at)}, in, at);
  const std::size_t behind = at + bytes, rest = count * size - behind;
  copy(call, {shown + behind, streams(rest)}, in + behind, rest);
  barrier_->wait(to_string(call.op), {}, call.given);

  parts_.clear();
  for (int position = 0; position < this->size(); ++position)
    parts_.push_back((position == rank() ? in : copy_of(position, slot)) + at);
  slot = barrier_->count() % 2;
  destinations_.clear();
  if (receives) destinations_.push_back({out + at});
  if (call.op == Op::all_reduce || !receives)
    destinations_.push_back({copy_of(rank(), slot) + at, streams(bytes)});
  combine(call, mine.length);
  barrier_->wait(to_string(call.op), {}, call.given);

  for (int position = 0; receives && position < this->size(); ++position) {
    if (position == rank()) continue;
    const Share share = share_of(position, count, call.dtype);
    copy(call, {out + share.begin * size}, copy_of(position, slot) + share.begin * size,
         share.length * size);
  }
}

void DirectCollectives::take(const CollectiveCall& call, const Piece& piece) {
  const std::size_t size = size_of(call.dtype);
  // There may be none where this rank gets nothing.
  auto* const out = static_cast<std::byte*>(call.operands.front().out);
  switch (call.op) {
    case Op::all_reduce:
      return combine_block(call, piece, 0, out);
    case Op::reduce:
      if (rank() == call.root) combine_block(call, piece, 0, out);
      return;
    case Op::reduce_scatter:
      return combine_block(call, piece, rank(), out);
    case Op::all_gather:
    case Op::all_to_all: {
      const std::size_t block = call.op == Op::all_to_all ? rank() : 0;
      std::size_t start = 0;
      for (int from = 0; from < this->size(); ++from) {
        take_block(call, piece, from, block, out + start * size);
        start += blocks_of(call, from, this->size())[block];
      }
      return;
    }
    case Op::broadcast:
      if (out != part(call, whole, call.root, 0)) take_block(call, piece, call.root, 0, out);
      return;
    case Op::send: {
      const int from = rank() - call.offset;
      if (from >= 0 && from < this->size()) take_block(call, piece, from, 0, out);
      return;
    }
    default:
      throw_unknown(call);
  }
}

void DirectCollectives::combine(const CollectiveCall& call, std::size_t count) const {
  const std::size_t size = size_of(call.dtype);
  const auto combine_part = [&](std::size_t begin, std::size_t length) {
    if (length == count)
      return combine_in_order(call.dtype, call.reduction, parts_, count, destinations_);
    std::vector<const void*> parts;
    for (const void* const part : parts_)
      parts.push_back(static_cast<const std::byte*>(part) + begin * size);
    std::vector<Destination> to = destinations_;
    for (Destination& one : to) one.data = static_cast<std::byte*>(one.data) + begin * size;
    combine_in_order(call.dtype, call.reduction, parts, length, to);
  };
  spread(call.cores, count, of_a_core / size, line_bytes / size, combine_part);
}

void DirectCollectives::combine_block(const CollectiveCall& call, const Piece& piece,
                                      std::size_t block, std::byte* out) {
  parts_.clear();
  for (int from = 0; from < size(); ++from) parts_.push_back(part(call, piece, from, block));
  const std::size_t count = blocks_of(call, rank(), size())[block];
  const std::size_t bytes = size_of(call.dtype);
  destinations_.assign(1, {out + piece.begin * bytes, count * bytes >= uncached_bytes});
  combine(call, piece.of(count));
}

void DirectCollectives::take_block(const CollectiveCall& call, const Piece& piece, int from,
                                   std::size_t block, std::byte* out) const {
  const std::size_t size = size_of(call.dtype);
  const std::size_t count = blocks_of(call, from, this->size())[block];
  copy(call, {out + std::min(piece.begin, count) * size, count * size >= uncached_bytes},
       part(call, piece, from, block), piece.of(count) * size);
}

const std::byte* DirectCollectives::part(const CollectiveCall& call, const Piece& piece, int from,
                                         std::size_t block) const {
  const std::size_t size = size_of(call.dtype);
  const std::span<const std::size_t> blocks = blocks_of(call, from, this->size());
  const bool is_copy = shows_copies_ && from != rank();
  std::size_t start = is_copy ? 0 : std::min(piece.begin, blocks[block]) * size;
  for (std::size_t before = 0; before < block; ++before)
    start += is_copy ? shown_bytes(call, piece, from, before) : blocks[before] * size;
  const auto* const begin = shows_copies_ && !is_copy
                                ? static_cast<const std::byte*>(call.operands.front().in)
                                : ins_[from];
  return begin + start;
}

}  // namespace coconet::jit
