// Collectives by reading: what each rank computes from the data of all.
#include "jit/comm/collectives/direct_group.h"

#include <algorithm>
#include <cstring>

#include "jit/comm/collectives/combine.h"
#include "jit/comm/collectives/groups.h"

namespace coconet::jit {

using ir::Op;

namespace {

/// From this size of a rank's share on, the other ranks' results are written past the caches, as
/// kernels do: with 2 ranks of one socket a tenth of an unfused Adam step from 2^22 parameters on.
constexpr std::size_t streaming_bytes = 512 << 10;

/// `pointers`, all of them moved by `bytes`.
template <class Pointer>
std::vector<Pointer> advanced(std::span<const Pointer> pointers, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte, const std::byte>;
  std::vector<Pointer> moved;
  for (const Pointer pointer : pointers) moved.push_back(static_cast<Byte*>(pointer) + bytes);
  return moved;
}

/// The blocks that the ranks have for the one at `position`.
void take_blocks(const CollectiveCall& call, const Parts& parts, std::size_t position) {
  const std::size_t ranks = parts.in.size();
  const std::size_t size = size_of(call.dtype);
  auto* to = static_cast<std::byte*>(call.operands.front().out);
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto counts = call.counts.subspan(from * ranks, ranks);
    const std::size_t bytes = counts[position] * size;
    const auto* const in = static_cast<const std::byte*>(parts.in[from]);
    if (bytes > 0) std::memcpy(to, in + block_starts(counts)[position] * size, bytes);
    to += bytes;
  }
}

}  // namespace

void DirectGroup::run(Queue&, const CollectiveCall& call) {
  require_sane(call, size());
  const auto& [in, out] = call.operands.front();
  exchange(to_string(call.op), in, call.shown(rank(), size()) * size_of(call.dtype), out,
           [&](const Parts& parts) { read(call, parts); });
}

void DirectGroup::read(const CollectiveCall& call, const Parts& parts) const {
  const DType dtype = call.dtype;
  const std::size_t bytes = call.count * size_of(dtype);
  void* const out = call.operands.front().out;
  switch (call.op) {
    case Op::all_reduce:
      return combine_all(call, parts, parts.out);
    case Op::reduce:
      if (!parts.out.empty()) return combine_all(call, parts, parts.out.subspan(call.root, 1));
      if (rank() == call.root) combine_all(call, parts, {});
      return;
    case Op::reduce_scatter: {
      const std::size_t start = block_starts(call.counts)[rank()];
      return combine_in_order(dtype, call.reduction, advanced(parts.in, start * size_of(dtype)),
                              call.counts[rank()], std::array{out});
    }
    case Op::all_gather:
      return gather(call, parts);
    case Op::all_to_all:
      return take_blocks(call, parts, static_cast<std::size_t>(rank()));
    case Op::broadcast:
      if (bytes > 0 && out != parts.in[call.root]) std::memcpy(out, parts.in[call.root], bytes);
      return;
    case Op::send: {
      const int from = rank() - call.offset;
      if (from >= 0 && from < size() && bytes > 0) std::memcpy(out, parts.in[from], bytes);
      return;
    }
    default:
      throw_unknown(call);
  }
}

void DirectGroup::combine_all(const CollectiveCall& call, const Parts& parts,
                              std::span<void* const> outs) const {
  if (parts.out.empty()) {
    combine_in_order(call.dtype, call.reduction, parts.in, call.count,
                     std::array{call.operands.front().out});
    return;
  }
  const std::size_t line = 64 / size_of(call.dtype);  // of a cache: no two ranks write one
  const std::size_t lines = (call.count + line - 1) / line;
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t share = (lines + ranks - 1) / ranks * line;
  const std::size_t first = std::min(call.count, share * static_cast<std::size_t>(rank()));
  const std::size_t bytes = first * size_of(call.dtype);
  const std::size_t length = std::min(share, call.count - first);
  const std::vector<void*> to = advanced(outs, bytes);
  const bool streams = outs.size() > 1 && length * size_of(call.dtype) >= streaming_bytes;
  combine_in_order(call.dtype, call.reduction, advanced(parts.in, bytes), length, to,
                   streams ? to[static_cast<std::size_t>(rank())] : nullptr);
}

void DirectGroup::gather(const CollectiveCall& call, const Parts& parts) const {
  auto* to = static_cast<std::byte*>(call.operands.front().out);
  for (int from = 0; from < size(); ++from) {
    const std::size_t bytes = call.counts[from] * size_of(call.dtype);
    if (bytes > 0) std::memcpy(to, parts.in[from], bytes);
    to += bytes;
  }
}

PointerGroup::PointerGroup(std::shared_ptr<Barrier> barrier, std::vector<Pointers*> pointers)
    : DirectGroup(std::move(barrier)), pointers_(std::move(pointers)) {}

void PointerGroup::exchange(std::string_view call, const void* in, std::size_t, void* out,
                            const Reader& read) {
  *pointers_[rank()] = {in, out};
  barrier().wait(call);
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (const Pointers* pointers : pointers_) {
    ins.push_back(pointers->in);
    outs.push_back(pointers->out);
  }
  read({ins, outs});
  barrier().wait(call);
}

CopyGroup::CopyGroup(std::shared_ptr<Barrier> barrier, std::vector<std::byte*> slots)
    : DirectGroup(std::move(barrier)), slots_(std::move(slots)) {
  for (const std::byte* slot : slots_) {
    parts_[0].push_back(slot);
    parts_[1].push_back(slot + capacity);
  }
}

// Two slots in turn: who writes one has met everybody since they last read it, two barriers ago or
// more.
void CopyGroup::exchange(std::string_view call, const void* in, std::size_t bytes, void*,
                         const Reader& read) {
  const std::size_t slot = barrier().count() % 2;
  if (bytes > 0) std::memcpy(slots_[rank()] + slot * capacity, in, bytes);
  barrier().wait(call);
  read({parts_[slot], {}});
}

}  // namespace coconet::jit
