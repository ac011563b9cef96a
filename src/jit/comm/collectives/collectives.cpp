// What calls of collectives say of their blocks, and that they get sane arguments.
#include "jit/comm/collectives/collectives.h"

#include <fmt/format.h>

#include <numeric>

#include "coconet/error.h"

namespace coconet::jit {

using ir::Op;

namespace {

std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

std::size_t CollectiveCall::blocks(int ranks) const {
  if (op == Op::all_to_all) return static_cast<std::size_t>(ranks) * ranks;
  return op == Op::reduce_scatter || op == Op::all_gather ? ranks : 0;
}

std::size_t CollectiveCall::shown(int position, int ranks) const {
  switch (op) {
    case Op::reduce_scatter:
      return sum(counts);
    case Op::all_to_all:
      return sum(counts.subspan(position * ranks, ranks));
    case Op::all_gather:
      return counts[position];
    case Op::broadcast:
      return position == root ? count : 0;
    case Op::send:
      return position + offset >= 0 && position + offset < ranks ? count : 0;
    default:
      return count;
  }
}

std::vector<std::size_t> block_starts(std::span<const std::size_t> counts) {
  std::vector<std::size_t> starts(counts.size() + 1);
  std::partial_sum(counts.begin(), counts.end(), starts.begin() + 1);
  return starts;
}

void require_sane(const CollectiveCall& call, int ranks) {
  const std::string_view name = to_string(call.op);
  const std::size_t blocks = call.blocks(ranks);
  if (blocks > 0 && call.counts.size() != blocks) {
    throw InternalError(fmt::format("{} was given {} counts; the group has {} ranks", name,
                                    call.counts.size(), ranks));
  }
  if (call.root < 0 || call.root >= ranks) {
    throw InternalError(fmt::format("{} was given the root {}; the group has the ranks 0 to {}",
                                    name, call.root, ranks - 1));
  }
}

void throw_unknown(const CollectiveCall& call) {
  throw InternalError(fmt::format("'{}' is no library collective", to_string(call.op)));
}

}  // namespace coconet::jit
