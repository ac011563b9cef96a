// Chooses the way of a collective by the bytes that the rank with most of them has, and by where
// they are.
#include "jit/comm/collectives/tiered_group.h"

#include <algorithm>

namespace coconet::jit {

namespace {

/// Elements that the rank with most of them shows the others, as all ranks know.
std::size_t most_shown(const CollectiveCall& call, int ranks) {
  std::size_t most = 0;
  for (int position = 0; position < ranks; ++position)
    most = std::max(most, call.shown(position, ranks));
  return most;
}

}  // namespace

void TieredGroup::run(Queue& queue, const CollectiveCall& call) {
  const std::size_t bytes = most_shown(call, direct_->size()) * size_of(call.dtype);
  // Copied, an all_reduce makes every rank read all of the other ranks' data.
  if (bytes <= (call.op == ir::Op::all_reduce ? always_copied / 2 : always_copied)) {
    small_->run(queue, call);
  } else if (direct_->reaches(call)) {
    direct_->run(queue, call);
  } else if (bytes <= CopyGroup::capacity) {
    small_->run(queue, call);
  } else {
    large_->run(queue, call);
  }
}

}  // namespace coconet::jit
