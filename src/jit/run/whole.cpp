// Copying parts out of and into whole tensors.
#include "jit/run/whole.h"

#include <algorithm>
#include <cstring>

#include "jit/checkpoint/boxes.h"
#include "jit/comm/comm.h"

namespace coconet::jit {
namespace {

ir::Part whole_of(const ir::Extents& global) {
  return {ir::Extents(global.size()), global};
}

}  // namespace

void copy_from_whole(const std::byte* whole, const ir::Extents& global, const ir::Part& part,
                     std::size_t bytes, std::byte* to) {
  for_each_common_run(whole_of(global), part,
                      [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
                        std::memcpy(to + in_part * bytes, whole + in_whole * bytes, run * bytes);
                      });
}

void copy_to_whole(const std::byte* from, const ir::Extents& global, const ir::Part& part,
                   std::size_t bytes, std::byte* whole) {
  for_each_common_run(whole_of(global), part,
                      [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
                        std::memcpy(whole + in_whole * bytes, from + in_part * bytes, run * bytes);
                      });
}

std::vector<std::byte> gather_whole(Comm& comm, const RankPlan& plan, sched::BufferId buffer,
                                    std::vector<std::byte> mine) {
  const ir::Placements& layout = plan.buffer(buffer).layout;
  const auto is = [](Placement::Kind kind) {
    return [kind](const Placement& placement) { return placement.kind == kind; };
  };
  if (std::ranges::none_of(layout, is(Placement::Kind::sliced))) return mine;
  const std::size_t bytes = plan.element_size(buffer);
  const ir::Extents& global = plan.buffer_extents(buffer);
  std::vector<std::byte> whole(static_cast<std::size_t>(ir::product(global)) * bytes);
  const std::vector<std::string> parts =
      comm.all_gather({reinterpret_cast<const char*>(mine.data()), mine.size()});
  for (int rank = 0; rank < comm.size(); ++rank) {
    bool is_other_tensor = false;
    for (std::size_t axis = 0; axis < layout.size(); ++axis) {
      const int a = static_cast<int>(axis);
      is_other_tensor = is_other_tensor ||
                        (layout[axis].kind == Placement::Kind::local &&
                         plan.mesh().coordinate(rank, a) != plan.mesh().coordinate(comm.rank(), a));
    }
    if (is_other_tensor) continue;
    copy_to_whole(reinterpret_cast<const std::byte*>(parts[rank].data()), global,
                  ir::part_of(plan.mesh(), layout, global, rank), bytes, whole.data());
  }
  return whole;
}

}  // namespace coconet::jit
