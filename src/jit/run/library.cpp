// Running a library collective.
#include "jit/run/library.h"

#include <algorithm>
#include <numeric>

#include "coconet/error.h"

namespace coconet::jit {

using ir::Op;

LibraryCollective::LibraryCollective(const Platform& platform, const RankPlan& plan,
                                     const sched::LibraryStep& step)
    : name_(step.name),
      op_(plan.graph().at(step.value).op),
      attributes_(plan.graph().at(step.value).attributes),
      dtype_(plan.graph().at(step.value).dtype),
      axis_(attributes_.axis),
      in_(step.in),
      out_(step.out) {
  const int position = plan.position(axis_);
  if (op_ == Op::reduce) written_ = position == attributes_.root;
  if (op_ == Op::send) {
    const int from = position - attributes_.offset;
    written_ = from >= 0 && from < plan.ranks(axis_);
  }
  const ir::Node& node = plan.graph().at(step.value);
  if (op_ != Op::reduce_scatter && op_ != Op::all_gather) {
    find_calls(plan, plan.part(step.value).extent, position);
    return;
  }
  ir::ValueId slice = step.value;
  ir::ValueId whole = node.operands.front();
  if (op_ == Op::all_gather) std::swap(slice, whole);
  const int dim = plan.graph().at(slice).layout[static_cast<std::size_t>(axis_)].dim;
  const ir::Part& all = plan.part(whole);
  const auto extent = static_cast<std::size_t>(all.extent[static_cast<std::size_t>(dim)]);
  std::size_t rows = 1;
  std::size_t inner = 1;
  for (int d = 0; d < static_cast<int>(all.extent.size()); ++d) {
    if (d < dim) rows *= static_cast<std::size_t>(all.extent[static_cast<std::size_t>(d)]);
    if (d > dim) inner *= static_cast<std::size_t>(all.extent[static_cast<std::size_t>(d)]);
  }
  for (const int member : plan.group(axis_)) {
    const ir::Part part = plan.part_on(member, slice);
    Block block;
    block.first = static_cast<std::size_t>(part.begin[static_cast<std::size_t>(dim)] -
                                           all.begin[static_cast<std::size_t>(dim)]) *
                  inner;
    block.rows = rows;
    block.run = static_cast<std::size_t>(part.extent[static_cast<std::size_t>(dim)]) * inner;
    block.stride = extent * inner;
    counts_.push_back(block.count());
    blocks_.push_back(block);
  }
  if (rows > 1) {
    packed_ = platform.allocate(std::accumulate(counts_.begin(), counts_.end(), std::size_t{0}) *
                                size_of(dtype_));
  }
  find_calls(plan, all.extent, position);
}

void LibraryCollective::find_calls(const RankPlan& plan, const ir::Extents& whole, int position) {
  const sched::PlanBuffer& in = plan.buffer(in_);
  const sched::PlanBuffer& out = plan.buffer(out_);
  if (!in.scattered && !out.scattered) {
    calls_.push_back({0, 0, 0, 0, static_cast<std::size_t>(ir::product(whole)), counts_});
    return;
  }
  // Only a whole is scattered: slices, and what has another shape, are single buffers.
  const std::vector<std::int64_t>& lengths = plan.lengths(in.scattered ? in_ : out_);
  std::size_t begin = 0;
  for (std::size_t piece = 0; piece < lengths.size(); ++piece) {
    Call call;
    call.count = static_cast<std::size_t>(lengths[piece]);
    const std::size_t end = begin + call.count;
    std::size_t in_slice = 0;  // where this rank's share of the buffer is in its slice
    for (std::size_t member = 0; member < blocks_.size(); ++member) {
      const std::size_t first = blocks_[member].first;
      const std::size_t last = first + blocks_[member].run;
      const std::size_t from = std::clamp(begin, first, last);
      call.counts.push_back(std::clamp(end, first, last) - from);
      if (static_cast<int>(member) == position) in_slice = from - first;
    }
    const auto place = [&](bool scattered, bool slice, std::size_t& of_piece, std::size_t& first) {
      of_piece = scattered ? piece : 0;
      first = scattered ? 0 : slice ? in_slice : begin;
    };
    place(in.scattered, op_ == Op::all_gather, call.in_piece, call.in_first);
    place(out.scattered, op_ == Op::reduce_scatter, call.out_piece, call.out_first);
    calls_.push_back(std::move(call));
    begin = end;
  }
}

CollectiveCall::Operands LibraryCollective::operands(const Tensors& tensors,
                                                     const Call& call) const {
  const auto place = [&](sched::BufferId id, std::size_t piece, std::size_t first) {
    const Tensors::Tensor& tensor = tensors[id];
    std::byte* const data = tensor.buffer->scattered ? tensor.pieces[piece].data : tensor.data;
    return data + first * size_of(dtype_);
  };
  CollectiveCall::Operands operands{place(in_, call.in_piece, call.in_first),
                                    place(out_, call.out_piece, call.out_first)};
  if (packed_ && op_ == Op::reduce_scatter) operands.in = packed_->data();
  if (packed_ && op_ == Op::all_gather) operands.out = packed_->data();
  return operands;
}

void LibraryCollective::pack(Queue& queue, const Tensors& tensors) {
  if (!packed_ || op_ != Op::reduce_scatter) return;
  const std::size_t size = size_of(dtype_);
  std::byte* to = packed_->data();
  for (const Block& block : blocks_) {
    queue.copy_rows(to, block.run * size, tensors[in_].data + block.first * size,
                    block.stride * size, block.run * size, block.rows);
    to += block.count() * size;
  }
}

void LibraryCollective::unpack(Queue& queue, const Tensors& tensors) {
  const Tensors::Tensor& out = tensors[out_];
  const std::size_t size = size_of(dtype_);
  for (const Call& call : calls_) {
    if (!written_) queue.zero(operands(tensors, call).out, call.count * size);
  }
  if (!packed_ || op_ != Op::all_gather) return;
  const std::byte* from = packed_->data();
  for (const Block& block : blocks_) {
    queue.copy_rows(out.data + block.first * size, block.stride * size, from, block.run * size,
                    block.run * size, block.rows);
    from += block.count() * size;
  }
}

void LibraryCollective::run(Collectives& group, Queue& queue, std::span<const Member> members) {
  for (const Member& member : members) member.collective->pack(queue, *member.tensors);
  LibraryCollective& self = *members.front().collective;
  const ir::Attributes& how = self.attributes_;
  self.operands_.resize(members.size());
  for (std::size_t index = 0; index < self.calls_.size(); ++index) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      const LibraryCollective& collective = *members[i].collective;
      self.operands_[i] = collective.operands(*members[i].tensors, collective.calls_[index]);
    }
    const Call& call = self.calls_[index];
    group.run(queue, {self.op_, self.dtype_, how.reduction, call.count, call.counts, how.root,
                      how.offset, self.operands_});
  }
  for (const Member& member : members) member.collective->unpack(queue, *member.tensors);
}

bool LibraryCollective::reduces() const {
  return ir::reduces_over_ranks(op_);
}

std::uint64_t LibraryCollective::bytes(const Tensors& tensors) const {
  return (tensors[in_].count + tensors[out_].count) * size_of(dtype_);
}

}  // namespace coconet::jit
