// Collectives by reading: what each rank computes from the data of all.
#include "jit/comm/direct_group.h"

#include <cstring>

#include "jit/comm/combine.h"
#include "jit/comm/groups.h"

namespace coconet::jit {

void DirectGroup::all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                             Reduction reduction) {
  exchange("all_reduce", in, count * size_of(dtype), [&](std::span<const void* const> parts) {
    combine_in_order(dtype, reduction, parts, 0, count, out);
  });
}

void DirectGroup::reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts,
                                 DType dtype, Reduction reduction) {
  const std::vector<std::size_t> starts = block_starts(*this, "reduce_scatter", counts);
  exchange("reduce_scatter", in, starts.back() * size_of(dtype),
           [&](std::span<const void* const> parts) {
             combine_in_order(dtype, reduction, parts, starts[rank()], counts[rank()], out);
           });
}

void DirectGroup::all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                             DType dtype) {
  const std::vector<std::size_t> starts = block_starts(*this, "all_gather", counts);
  exchange("all_gather", in, counts[rank()] * size_of(dtype),
           [&](std::span<const void* const> parts) {
             for (int from = 0; from < size(); ++from) {
               std::byte* to = static_cast<std::byte*>(out) + starts[from] * size_of(dtype);
               const std::size_t bytes = counts[from] * size_of(dtype);
               if (bytes > 0) std::memcpy(to, parts[from], bytes);
             }
           });
}

void DirectGroup::reduce(const void* in, void* out, std::size_t count, DType dtype,
                         Reduction reduction, int root) {
  require_root(*this, "reduce", root);
  exchange("reduce", in, count * size_of(dtype), [&](std::span<const void* const> parts) {
    if (rank() == root) combine_in_order(dtype, reduction, parts, 0, count, out);
  });
}

void DirectGroup::broadcast(void* data, std::size_t count, DType dtype, int root) {
  require_root(*this, "broadcast", root);
  const std::size_t bytes = count * size_of(dtype);
  exchange("broadcast", data, rank() == root ? bytes : 0, [&](std::span<const void* const> parts) {
    if (rank() != root && bytes > 0) std::memcpy(data, parts[root], bytes);
  });
}

PointerGroup::PointerGroup(std::shared_ptr<Meeting> meeting, std::vector<const void**> pointers)
    : DirectGroup(std::move(meeting)), pointers_(std::move(pointers)) {}

void PointerGroup::exchange(std::string_view call, const void* mine, std::size_t,
                            const Reader& read) {
  *pointers_[rank()] = mine;
  meeting().meet(call);
  std::vector<const void*> parts;
  for (const void** pointer : pointers_) parts.push_back(*pointer);
  read(parts);
  meeting().meet(call);
}

CopyGroup::CopyGroup(std::shared_ptr<Meeting> meeting, std::vector<std::byte*> slots)
    : DirectGroup(std::move(meeting)), slots_(std::move(slots)) {
  for (const std::byte* slot : slots_) {
    parts_[0].push_back(slot);
    parts_[1].push_back(slot + capacity);
  }
}

// Two slots in turn: who writes one has met everybody since they last read it, one round ago.
void CopyGroup::exchange(std::string_view call, const void* mine, std::size_t bytes,
                         const Reader& read) {
  const unsigned slot = round_++ % 2;
  if (bytes > 0) std::memcpy(slots_[rank()] + slot * capacity, mine, bytes);
  meeting().meet(call);
  read(parts_[slot]);
}

}  // namespace coconet::jit
