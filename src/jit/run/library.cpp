// Running a library collective.
#include "jit/run/library.h"

#include <algorithm>
#include <span>

#include "jit/comm/comm.h"

namespace coconet::jit {

using ir::Op;

LibraryCollective::LibraryCollective(Comm& comm, const Platform& platform, const RankPlan& plan,
                                     const sched::LibraryStep& step, bool by_mpi, int cores)
    : op_(plan.graph().at(step.value).op),
      attributes_(plan.graph().at(step.value).attributes),
      dtype_(plan.graph().at(step.value).dtype),
      axis_(attributes_.axis),
      by_mpi_(by_mpi),
      cores_(cores),
      in_(step.in),
      out_(step.out) {
  const int position = plan.position(axis_);
  if (op_ == Op::reduce) written_ = position == attributes_.root;
  if (op_ == Op::send) {
    const int from = position - attributes_.offset;
    written_ = from >= 0 && from < plan.ranks(axis_);
  }
  copies_ = plan.ranks(axis_) == 1 && op_ != Op::send && !plan.buffer(in_).scattered &&
            !plan.buffer(out_).scattered;
  if (copies_) return;
  const ir::ValueId out = step.value;
  const ir::ValueId in = plan.graph().at(out).operands.front();
  from_ = divide(comm, platform, plan, in, out, axis_);
  to_ = divide(comm, platform, plan, out, in, axis_);
  const ir::ValueId whole = from_.blocks.empty() ? out : in;
  find_calls(plan, counts_of(plan, in, out), plan.part(whole).count());
}

/// How the slices of `sliced` along `axis`, if it has any, divide what this rank holds of `tensor`.
LibraryCollective::Side LibraryCollective::divide(Comm& comm, const Platform& platform,
                                                  const RankPlan& plan, ir::ValueId tensor,
                                                  ir::ValueId sliced, int axis) {
  Side side;
  const Placement placement = plan.graph().at(sliced).layout[axis];
  if (placement.kind != Placement::Kind::sliced) return side;
  const ir::Part& all = plan.part(tensor);
  const abi::Slices whole = slices_along(all.extent, placement.dim, 1);
  for (const int member : plan.group(axis)) {
    const ir::Part part = plan.part_on(member, sliced);
    Block& block = side.blocks.emplace_back();
    block.first = (part.begin[placement.dim] - all.begin[placement.dim]) * whole.inner;
    block.rows = whole.outer;
    block.run = part.extent[placement.dim] * whole.inner;
    block.stride = whole.extent * whole.inner;
  }
  // The first rank has the largest part; all ranks decide alike.
  const ir::Part first = plan.part_on(0, tensor);
  const auto rows = std::span(first.extent).first(static_cast<std::size_t>(placement.dim));
  if (std::ranges::all_of(rows, [](std::int64_t extent) { return extent <= 1; })) return side;
  const std::size_t bytes = first.count() * size_of(plan.graph().at(tensor).dtype);
  if (platform.traits().shares_for_collectives && comm.size() > 1) {
    side.peer_memory = platform.allocate_peer(comm, bytes);
    side.packed = side.peer_memory->base(comm.rank());
  } else {
    side.memory = platform.allocate(bytes);
    side.packed = side.memory->data();
  }
  return side;
}

std::vector<std::size_t> LibraryCollective::counts_of(const RankPlan& plan, ir::ValueId in,
                                                      ir::ValueId out) const {
  std::vector<std::size_t> counts;
  if (from_.blocks.empty() || to_.blocks.empty()) {
    for (const Block& block : from_.blocks.empty() ? to_.blocks : from_.blocks)
      counts.push_back(block.count());
    return counts;
  }
  const int dim =
      plan.graph().at(out).layout[axis_].dim;  // of which each rank of `in` has the whole
  for (const int from : plan.group(axis_)) {
    ir::Part part = plan.part_on(from, in);
    for (const int to : plan.group(axis_)) {
      part.extent[dim] = plan.part_on(to, out).extent[dim];
      counts.push_back(part.count());
    }
  }
  return counts;
}

void LibraryCollective::find_calls(const RankPlan& plan, std::vector<std::size_t> counts,
                                   std::size_t count) {
  const sched::PlanBuffer& in = plan.buffer(in_);
  const sched::PlanBuffer& out = plan.buffer(out_);
  if (!in.scattered && !out.scattered) {
    calls_.push_back({{}, {}, count, std::move(counts)});
    return;
  }
  // Only a whole is scattered: slices, and what has another shape, are single buffers.
  const std::vector<Block>& blocks = from_.blocks.empty() ? to_.blocks : from_.blocks;
  const int position = plan.position(axis_);
  const std::vector<std::int64_t>& lengths = plan.lengths(in.scattered ? in_ : out_);
  std::size_t begin = 0;
  for (std::size_t piece = 0; piece < lengths.size(); ++piece) {
    Call call;
    call.count = lengths[piece];
    const std::size_t end = begin + call.count;
    std::size_t in_slice = 0;  // where this rank's share of the buffer is in its slice
    for (std::size_t member = 0; member < blocks.size(); ++member) {
      const std::size_t first = blocks[member].first;
      const std::size_t last = first + blocks[member].run;
      const std::size_t from = std::clamp(begin, first, last);
      call.counts.push_back(std::clamp(end, first, last) - from);
      // A slice without elements of the buffer is told of by its beginning, which others reach.
      const bool is_own = static_cast<int>(member) == position;
      if (is_own && call.counts.back() > 0) in_slice = from - first;
    }
    const auto place = [&](bool scattered, bool slice) {
      return scattered ? Place{piece, 0} : Place{0, slice ? in_slice : begin};
    };
    call.in = place(in.scattered, !to_.blocks.empty());
    call.out = place(out.scattered, !from_.blocks.empty());
    calls_.push_back(std::move(call));
    begin = end;
  }
}

CollectiveCall::Operands LibraryCollective::operands(const Tensors& tensors,
                                                     const Call& call) const {
  const auto at = [&](sched::BufferId id, const Place& place) {
    return tensors[id].pieces[place.piece].data + place.first * size_of(dtype_);
  };
  CollectiveCall::Operands operands{at(in_, call.in), at(out_, call.out)};
  if (from_.packed != nullptr) operands.in = from_.packed;
  if (to_.packed != nullptr) operands.out = to_.packed;
  return operands;
}

void LibraryCollective::pack(Queue& queue, const Tensors& tensors) {
  if (from_.packed == nullptr) return;
  const std::size_t size = size_of(dtype_);
  std::byte* to = from_.packed;
  for (const Block& block : from_.blocks) {
    queue.copy_rows(to, block.run * size, tensors[in_].data() + block.first * size,
                    block.stride * size, block.run * size, block.rows);
    to += block.count() * size;
  }
}

void LibraryCollective::unpack(Queue& queue, const Tensors& tensors) {
  const std::size_t size = size_of(dtype_);
  for (const Call& call : calls_) {
    if (!written_) queue.zero(operands(tensors, call).out, call.count * size);
  }
  if (to_.packed == nullptr) return;
  const std::byte* from = to_.packed;
  for (const Block& block : to_.blocks) {
    queue.copy_rows(tensors[out_].data() + block.first * size, block.stride * size, from,
                    block.run * size, block.run * size, block.rows);
    from += block.count() * size;
  }
}

void LibraryCollective::copy(Queue& queue, const Tensors& tensors) const {
  if (is_in_place(tensors)) return;
  queue.copy(tensors[out_].data(), tensors[in_].data(), tensors[in_].count * size_of(dtype_));
}

void LibraryCollective::run(Collectives& group, Queue& queue, std::span<const Member> members,
                            std::uint64_t given) {
  if (members.front().collective->copies_) {
    for (const Member& member : members) member.collective->copy(queue, *member.tensors);
    return;
  }
  for (const Member& member : members) member.collective->pack(queue, *member.tensors);
  LibraryCollective& self = *members.front().collective;
  const ir::Attributes& how = self.attributes_;
  const std::size_t calls = self.calls_.size();
  self.operands_.resize(calls * members.size());
  self.group_calls_.clear();
  for (std::size_t index = 0; index < calls; ++index) {
    const std::span operands =
        std::span(self.operands_).subspan(index * members.size(), members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      const LibraryCollective& collective = *members[i].collective;
      operands[i] = collective.operands(*members[i].tensors, collective.calls_[index]);
    }
    const Call& call = self.calls_[index];
    self.group_calls_.push_back({self.op_, self.dtype_, how.reduction, call.count, call.counts,
                                 how.root, how.offset, operands, self.by_mpi_, given, self.cores_});
  }
  group.run_all(queue, self.group_calls_);
  for (const Member& member : members) member.collective->unpack(queue, *member.tensors);
}

}  // namespace coconet::jit
