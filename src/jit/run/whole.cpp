// Tensors as a whole: what each rank's part of one is, and putting parts together.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "coconet/error.h"
#include "jit/checkpoint/boxes.h"
#include "jit/run/executable_state.h"

namespace coconet {

using namespace jit;

namespace {

/// Throws BackendError unless `count` is the whole tensor's.
void require_whole_count(std::string_view name, const Executable::Slice& slice, std::size_t count) {
  const auto all = static_cast<std::size_t>(ir::product(slice.whole));
  if (count == all) return;
  throw BackendError(
      fmt::format("'{}' has {} elements as a whole, and {} are given", name, all, count));
}

/// Copies elements of `bytes` each out of a whole tensor with `global` extents, those of `part`,
/// both row-major.
void copy_from_whole(const std::byte* whole, const ir::Extents& global, const ir::Part& part,
                     std::size_t bytes, std::byte* to) {
  for_each_common_run({ir::Extents(global.size()), global}, part,
                      [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
                        std::memcpy(to + in_part * bytes, whole + in_whole * bytes, run * bytes);
                      });
}

/// Collective unless every rank has all of `buffer`: the whole tensor, on every rank, of which this
/// one has `mine`. Where it is local along an axis, that of the ranks with this one's coordinate.
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
    for_each_common_run(
        {ir::Extents(global.size()), global}, ir::part_of(plan.mesh(), layout, global, rank),
        [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
          std::memcpy(&whole[in_whole * bytes], &parts[rank][in_part * bytes], run * bytes);
        });
  }
  return whole;
}

}  // namespace

void Executable::write_whole(std::string_view name, DType dtype, const void* from,
                             std::size_t count) {
  const Slice slice = slice_of(name);
  require_whole_count(name, slice, count);
  std::vector<std::byte> mine(this->count(name) * size_of(dtype));
  copy_from_whole(static_cast<const std::byte*>(from), slice.whole, {slice.begin, slice.extent},
                  size_of(dtype), mine.data());
  write(name, dtype, mine.data(), this->count(name));
}

void Executable::read_whole(std::string_view name, DType dtype, void* to, std::size_t count) {
  Comm& comm = state().comm();
  std::vector<std::byte> mine;
  together(comm, [&] {
    require_whole_count(name, slice_of(name), count);
    mine.resize(this->count(name) * size_of(dtype));
    read(name, dtype, mine.data(), this->count(name));
  });
  const std::vector<std::byte> whole =
      gather_whole(comm, state_->bound().plan, state_->tensors().find(name), std::move(mine));
  if (!whole.empty()) std::memcpy(to, whole.data(), whole.size());
}

}  // namespace coconet
