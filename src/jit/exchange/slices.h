// Slices of a tensor by rank, as mailboxes carry them: the prelude's Slices.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/extents.h"
#include "sched/plan.h"

namespace coconet::jit {

/// `outer` rows of `extent` pieces of `inner` elements; rank r of the group owns pieces [r * block, (r + 1) * block) of
/// each row, or rank `only` all of them.
struct Slices {
  std::int64_t outer = 1, inner = 1, extent = 0, block = 0, only = -1;

  [[nodiscard]] std::int64_t pieces(int rank) const;
  /// Elements that `rank` owns.
  [[nodiscard]] std::int64_t count(int rank) const { return outer * pieces(rank) * inner; }
  /// Element `i` of what `rank` owns, as an element of the whole tensor.
  [[nodiscard]] std::int64_t element(int rank, std::int64_t i) const;
  [[nodiscard]] std::vector<std::uint64_t> words() const;
};

/// Slices along `dim` of a whole with `extents`, one for each of `ranks`.
[[nodiscard]] Slices slices_along(const ir::Extents& extents, int dim, int ranks);
/// `count` elements that `owner` owns all of.
[[nodiscard]] Slices slices_of_one(std::int64_t count, int owner);

/// Elements of the chunks that it exchanges.
[[nodiscard]] std::int64_t chunk_of(const sched::Plan& plan, const sched::KernelStep& step);
/// Bytes of an element in a mailbox, at most.
[[nodiscard]] std::size_t mailed_size(const sched::Plan& plan, const sched::KernelStep& step);

}  // namespace coconet::jit
