// Collectives by reading: what each rank computes from the data of all.
#include "jit/comm/collectives/direct_group.h"

#include <algorithm>
#include <cstring>

#include "jit/comm/collectives/combine.h"
#include "jit/comm/collectives/groups.h"

namespace coconet::jit {

namespace {

/// From this size of a rank's share on, the other ranks' results are written past the caches, as kernels do: with 2
/// ranks of one socket a tenth of an unfused Adam step from 2^22 parameters on.
constexpr std::size_t streaming_bytes = 512 << 10;

/// `pointers`, all of them moved by `bytes`.
template <class Pointer>
std::vector<Pointer> advanced(std::span<const Pointer> pointers, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte, const std::byte>;
  std::vector<Pointer> moved;
  for (const Pointer pointer : pointers) moved.push_back(static_cast<Byte*>(pointer) + bytes);
  return moved;
}

}  // namespace

void DirectGroup::combine_share(DType dtype, Reduction reduction, std::span<const void* const> ins,
                                std::size_t count, std::span<void* const> outs) const {
  const std::size_t line = 64 / size_of(dtype);  // of a cache: no two ranks write one
  const std::size_t lines = (count + line - 1) / line;
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t share = (lines + ranks - 1) / ranks * line;
  const std::size_t first = std::min(count, share * static_cast<std::size_t>(rank()));
  const std::size_t bytes = first * size_of(dtype);
  const std::size_t length = std::min(share, count - first);
  const std::vector<void*> to = advanced(outs, bytes);
  const bool streams = outs.size() > 1 && length * size_of(dtype) >= streaming_bytes;
  combine_in_order(dtype, reduction, advanced(ins, bytes), length, to,
                   streams ? to[static_cast<std::size_t>(rank())] : nullptr);
}

void DirectGroup::all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                             Reduction reduction) {
  exchange("all_reduce", in, count * size_of(dtype), out, [&](const Parts& parts) {
    if (parts.out.empty()) {
      combine_in_order(dtype, reduction, parts.in, count, std::array{out});
    } else {
      combine_share(dtype, reduction, parts.in, count, parts.out);
    }
  });
}

void DirectGroup::reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts,
                                 DType dtype, Reduction reduction) {
  const std::vector<std::size_t> starts = block_starts(*this, "reduce_scatter", counts);
  exchange("reduce_scatter", in, starts.back() * size_of(dtype), out, [&](const Parts& parts) {
    combine_in_order(dtype, reduction, advanced(parts.in, starts[rank()] * size_of(dtype)),
                     counts[rank()], std::array{out});
  });
}

void DirectGroup::all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                             DType dtype) {
  const std::vector<std::size_t> starts = block_starts(*this, "all_gather", counts);
  exchange("all_gather", in, counts[rank()] * size_of(dtype), out, [&](const Parts& parts) {
    for (int from = 0; from < size(); ++from) {
      std::byte* to = static_cast<std::byte*>(out) + starts[from] * size_of(dtype);
      const std::size_t bytes = counts[from] * size_of(dtype);
      if (bytes > 0) std::memcpy(to, parts.in[from], bytes);
    }
  });
}

void DirectGroup::reduce(const void* in, void* out, std::size_t count, DType dtype,
                         Reduction reduction, int root) {
  require_root(*this, "reduce", root);
  exchange("reduce", in, count * size_of(dtype), out, [&](const Parts& parts) {
    if (!parts.out.empty()) {
      combine_share(dtype, reduction, parts.in, count, parts.out.subspan(root, 1));
    } else if (rank() == root) {
      combine_in_order(dtype, reduction, parts.in, count, std::array{out});
    }
  });
}

void DirectGroup::broadcast(void* data, std::size_t count, DType dtype, int root) {
  require_root(*this, "broadcast", root);
  const std::size_t bytes = count * size_of(dtype);
  exchange("broadcast", data, rank() == root ? bytes : 0, data, [&](const Parts& parts) {
    if (rank() != root && bytes > 0) std::memcpy(data, parts.in[root], bytes);
  });
}

void DirectGroup::shift(const void* in, void* out, std::size_t count, DType dtype, int offset) {
  const std::size_t bytes = count * size_of(dtype);
  const int from = rank() - offset;
  const bool sends = has_position(*this, rank() + offset);
  exchange("send", in, sends ? bytes : 0, out, [&](const Parts& parts) {
    if (has_position(*this, from) && bytes > 0) std::memcpy(out, parts.in[from], bytes);
  });
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

// Two slots in turn: who writes one has met everybody since they last read it, two barriers ago or more.
void CopyGroup::exchange(std::string_view call, const void* in, std::size_t bytes, void*,
                         const Reader& read) {
  const std::size_t slot = barrier().count() % 2;
  if (bytes > 0) std::memcpy(slots_[rank()] + slot * capacity, in, bytes);
  barrier().wait(call);
  read({parts_[slot], {}});
}

}  // namespace coconet::jit
