// Collectives in the reference: every rank reads the parts of the ranks of its group directly.
#include <algorithm>

#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

namespace {

using Offset = std::array<std::int64_t, 1>;

// The reduction of the operand over `group` on the part `part` of the result, in group order.
Data reduced(const ReferenceStep& step, const Node& node, const Part& part,
             const std::vector<int>& group) {
  const Reduction reduction = node.attributes.reduction;
  const ValueId operand = node.operands[0];
  Data out(static_cast<std::size_t>(part.count()), identity(reduction));
  for (const int member : group) {
    const Data& in = step.data(operand, member);
    const std::array<View, 1> views{view_into(part, step.part(operand, member))};
    walk(part, views, [&](std::size_t n, const Offset& at) {
      out[n] = combine(reduction, node.dtype, out[n], in[at[0]]);
    });
  }
  const double divisor = reduction == Reduction::mean ? static_cast<double>(group.size()) : 1;
  for (double& element : out) element = round_to(node.dtype, element / divisor);
  return out;
}

// What two parts of one tensor have in common; extents are 0 where that is nothing.
Part intersection(const Part& a, const Part& b) {
  Part common = a;
  for (std::size_t dim = 0; dim < a.begin.size(); ++dim) {
    const std::int64_t end = std::min(a.begin[dim] + a.extent[dim], b.begin[dim] + b.extent[dim]);
    common.begin[dim] = std::max(a.begin[dim], b.begin[dim]);
    common.extent[dim] = std::max<std::int64_t>(end - common.begin[dim], 0);
  }
  return common;
}

// `part` of the operand, put together from what each rank of `group` holds of it.
Data moved(const ReferenceStep& step, const Node& node, const Part& part,
           const std::vector<int>& group) {
  const ValueId operand = node.operands[0];
  Data out(static_cast<std::size_t>(part.count()));
  for (const int member : group) {
    const Part held = step.part(operand, member);
    const Part common = intersection(held, part);
    const std::array<View, 2> views{view_into(common, held), view_into(common, part)};
    const Data& in = step.data(operand, member);
    walk(common, views,
         [&](std::size_t, const std::array<std::int64_t, 2>& at) { out[at[1]] = in[at[0]]; });
  }
  return out;
}

// What the group `offset` positions before that of `rank` sends, or zeros where there is none.
Data received(const ReferenceStep& step, const Node& node, int rank,
              const std::vector<int>& group) {
  const int from = step.graph.mesh.coordinate(rank, node.attributes.axis) - node.attributes.offset;
  const ValueId operand = node.operands[0];
  if (from < 0 || from >= static_cast<int>(group.size()))
    return Data(step.data(operand, rank).size(), 0);
  return step.data(operand, group[from]);
}

}  // namespace

RankData evaluate_collective(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Part part = step.part(id, rank);
    const std::vector<int> group = step.graph.mesh.group(rank, node.attributes.axis);
    const int root = group.at(node.attributes.root);
    switch (node.op) {
      case Op::all_reduce:
      case Op::reduce_scatter:
        result.push_back(reduced(step, node, part, group));
        break;
      case Op::reduce:
        result.push_back(rank == root ? reduced(step, node, part, group)
                                      : Data(static_cast<std::size_t>(part.count()), 0));
        break;
      case Op::broadcast:
        result.push_back(step.data(node.operands[0], root));
        break;
      case Op::send:
        result.push_back(received(step, node, rank, group));
        break;
      default:  // the same elements, held by other ranks
        result.push_back(moved(step, node, part, group));
        break;
    }
  }
  return result;
}

}  // namespace coconet::ir
