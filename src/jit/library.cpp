// Running a library collective.
#include "jit/library.h"

#include <cstring>
#include <numeric>

#include "coconet/error.h"

namespace coconet::jit {

using ir::Op;

LibraryCollective::LibraryCollective(const sched::Plan& plan, const sched::LibraryStep& step,
                                     const std::map<std::string, std::int64_t>& sizes, int rank)
    : op_(plan.graph.at(step.value).op),
      attributes_(plan.graph.at(step.value).attributes),
      dtype_(plan.graph.at(step.value).dtype),
      axis_(attributes_.axis),
      in_(step.in),
      out_(step.out) {
  if (op_ != Op::reduce_scatter && op_ != Op::all_gather) return;
  const ir::Node& node = plan.graph.at(step.value);
  const ir::Node& slice = op_ == Op::reduce_scatter ? node : plan.graph.at(node.operands.front());
  const ir::Node& whole = op_ == Op::reduce_scatter ? plan.graph.at(node.operands.front()) : node;
  const int dim = slice.layout[static_cast<std::size_t>(axis_)].dim;
  const ir::Extents global = ir::global_extents(slice.shape, sizes);
  const ir::Part all = ir::part_of(plan.graph.mesh, whole.layout, global, rank);
  const auto extent = static_cast<std::size_t>(all.extent[static_cast<std::size_t>(dim)]);
  std::size_t rows = 1;
  std::size_t inner = 1;
  for (int d = 0; d < static_cast<int>(all.extent.size()); ++d) {
    if (d < dim) rows *= static_cast<std::size_t>(all.extent[static_cast<std::size_t>(d)]);
    if (d > dim) inner *= static_cast<std::size_t>(all.extent[static_cast<std::size_t>(d)]);
  }
  for (const int member : plan.graph.mesh.group(rank, axis_)) {
    const ir::Part part = ir::part_of(plan.graph.mesh, slice.layout, global, member);
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
  contiguous_ = rows == 1;
  if (!contiguous_)
    packed_.resize(std::accumulate(counts_.begin(), counts_.end(), std::size_t{0}) *
                   size_of(dtype_));
}

void LibraryCollective::pack(const std::byte* whole) {
  const std::size_t size = size_of(dtype_);
  std::byte* to = packed_.data();
  for (const Block& block : blocks_) {
    for (std::size_t row = 0; row < block.rows; ++row, to += block.run * size) {
      std::memcpy(to, whole + (block.first + row * block.stride) * size, block.run * size);
    }
  }
}

void LibraryCollective::unpack(std::byte* whole) const {
  const std::size_t size = size_of(dtype_);
  const std::byte* from = packed_.data();
  for (const Block& block : blocks_) {
    for (std::size_t row = 0; row < block.rows; ++row, from += block.run * size) {
      std::memcpy(whole + (block.first + row * block.stride) * size, from, block.run * size);
    }
  }
}

void LibraryCollective::run(Group& group, const Tensors& tensors) {
  const Tensors::Tensor& in = tensors[in_];
  const Tensors::Tensor& out = tensors[out_];
  switch (op_) {
    case Op::all_reduce:
      group.all_reduce(in.data, out.data, in.count, dtype_, attributes_.reduction);
      return;
    case Op::reduce_scatter:
      if (!contiguous_) pack(in.data);
      group.reduce_scatter(contiguous_ ? in.data : packed_.data(), out.data, counts_, dtype_,
                           attributes_.reduction);
      return;
    case Op::all_gather:
      group.all_gather(in.data, contiguous_ ? out.data : packed_.data(), counts_, dtype_);
      if (!contiguous_) unpack(out.data);
      return;
    case Op::reduce:
      group.reduce(in.data, out.data, in.count, dtype_, attributes_.reduction, attributes_.root);
      if (group.rank() != attributes_.root) std::memset(out.data, 0, out.count * size_of(dtype_));
      return;
    case Op::broadcast:
      if (group.rank() == attributes_.root)
        std::memcpy(out.data, in.data, in.count * size_of(dtype_));
      group.broadcast(out.data, out.count, dtype_, attributes_.root);
      return;
    default:
      throw InternalError("'" + std::string(to_string(op_)) + "' is no library collective");
  }
}

std::uint64_t LibraryCollective::bytes(const Tensors& tensors) const {
  return (tensors[in_].count + tensors[out_].count) * size_of(dtype_);
}

}  // namespace coconet::jit
