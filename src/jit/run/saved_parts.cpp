// Which rank saves what; see saved_parts.h.
#include "jit/run/saved_parts.h"

#include <algorithm>

namespace coconet::jit {
namespace {

/// Parts that are smaller than this are saved by one of the ranks that have them.
constexpr std::size_t least_divided = std::size_t{1} << 20;

/// The position of `rank` among those that differ from it along axes of `kind`, row-major, and how
/// many these are.
struct Position {
  int index = 0, count = 1;
};
Position position_along(const RankPlan& plan, const ir::Placements& layout, Placement::Kind kind,
                        int rank) {
  Position position;
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (layout[axis].kind != kind) continue;
    const int size = plan.mesh().axes()[axis].size;
    position.index = position.index * size + plan.mesh().coordinate(rank, static_cast<int>(axis));
    position.count *= size;
  }
  return position;
}

/// The `index`-th of `count` shares of `part`: rows of the first dimension that has several, so
/// that a share is one piece of memory.
void take_share(ir::Part& part, std::int64_t index, std::int64_t count, std::int64_t& first_row,
                std::int64_t& row) {
  std::size_t d = 0;
  while (d + 1 < part.extent.size() && part.extent[d] == 1) ++d;
  row = row_of(part, static_cast<int>(d) + 1);
  const std::int64_t rows = part.extent[d];
  first_row = rows * index / count;
  part.begin[d] += first_row;
  part.extent[d] = rows * (index + 1) / count - first_row;
}

}  // namespace

std::vector<SavedState> saved_states(const RankPlan& plan) {
  std::vector<SavedState> states;
  for (const auto& [name, buffer] : plan.plan().named) {
    const sched::PlanBuffer& memory = plan.buffer(buffer);
    // An output that is a state's new value has the state's memory.
    if (memory.role != sched::PlanBuffer::Role::state || memory.name != name) continue;
    const ir::Placements& layout = memory.layout;
    states.push_back({name, buffer, position_along(plan, layout, Placement::Kind::local, 0).count,
                      position_along(plan, layout, Placement::Kind::replicated, 0).count});
  }
  std::ranges::stable_sort(states, std::ranges::greater(), [&](const SavedState& state) {
    return plan.element_size(state.buffer);
  });
  return states;
}

std::int64_t copy_of(const RankPlan& plan, const SavedState& state, int rank) {
  return position_along(plan, plan.buffer(state.buffer).layout, Placement::Kind::local, rank).index;
}

std::vector<RankShare> shares_of(const RankPlan& plan, const std::vector<SavedState>& states,
                                 int rank) {
  std::vector<RankShare> shares;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const SavedState& state = states[i];
    const ir::Placements& layout = plan.buffer(state.buffer).layout;
    const std::size_t element = plan.element_size(state.buffer);
    RankShare share{i, ir::part_of(plan.mesh(), layout, plan.buffer_extents(state.buffer), rank), 0,
                    0};
    const int replica = position_along(plan, layout, Placement::Kind::replicated, rank).index;
    if (static_cast<std::size_t>(share.box.count()) * element < least_divided) {
      if (replica != static_cast<int>(i) % state.replicas) continue;
    } else {
      std::int64_t first_row = 0, row = 1;
      take_share(share.box, replica, state.replicas, first_row, row);
      share.begin = static_cast<std::size_t>(first_row * row) * element;
    }
    share.bytes = static_cast<std::size_t>(share.box.count()) * element;
    if (share.bytes > 0) shares.push_back(std::move(share));
  }
  return shares;
}

std::vector<FileTensor> file_tensors(const RankPlan& plan, const std::vector<SavedState>& states,
                                     const std::vector<RankShare>& shares) {
  std::vector<FileTensor> tensors;
  for (const RankShare& share : shares) {
    const SavedState& state = states[share.state];
    tensors.push_back({state.name, plan.buffer(state.buffer).dtype, share.box.extent});
  }
  return tensors;
}

}  // namespace coconet::jit
