// Resolving a plan for a rank.
#include "jit/bind/rank_plan.h"

#include "ir/factors.h"

namespace coconet::jit {
namespace {

/// The view of a tensor of which `part` is in memory.
View view_of(const ir::Factors& factors, const ir::Part& part, const ir::Part& domain) {
  View view;
  view.strides.assign(domain.extent.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t own = factors.size(); own-- > 0;) {
    // What a tensor has for each buffer repeats, too, though not after a fixed number of elements.
    if (factors[own].kind == ir::Factor::Kind::passes) {
      const auto d = static_cast<std::size_t>(factors[own].of_result);
      const std::int64_t step = factors[own].step;
      view.strides[d] = stride * step;
      view.offset += (factors[own].begin + domain.begin[d] * step - part.begin[own]) * stride;
    }
    stride *= part.extent[own];
  }
  return view;
}

}  // namespace

std::int64_t rows_of(const ir::Part& part) {
  return part.extent.empty() || part.count() == 0 ? 0 : part.count() / part.extent.back();
}

std::int64_t row_of(const ir::Part& part, int first) {
  std::int64_t elements = 1;
  for (std::size_t d = static_cast<std::size_t>(first); d < part.extent.size(); ++d)
    elements *= part.extent[d];
  return elements;
}

Results results_of(const ir::Graph& graph, const sched::KernelStep& step, const ir::Part& part) {
  const ir::Node& reduction = graph.at(step.reductions().front());
  Results results;
  for (std::size_t d = 0; d < part.extent.size(); ++d) {
    const bool reduced = ir::reduces(reduction, static_cast<int>(d));
    (reduced ? results.elements : results.count) *= part.extent[d];
  }
  return results;
}

RankPlan::RankPlan(std::shared_ptr<const sched::Plan> plan,
                   std::map<std::string, std::int64_t> sizes, ir::Lists lists, int rank)
    : plan_(std::move(plan)), sizes_(std::move(sizes)), lists_(std::move(lists)), rank_(rank) {
  for (const ir::Node& node : graph().nodes()) values_.push_back(place(node.shape, node.layout));
  for (const sched::PlanBuffer& buffer : plan_->buffers)
    buffers_.push_back(place(buffer.shape, buffer.layout));
  for (int axis = 0; axis < static_cast<int>(mesh().axes().size()); ++axis)
    groups_.push_back(mesh().group(rank, axis));
}

RankPlan::Placed RankPlan::place(const Shape& shape, const ir::Placements& layout) const {
  ir::Extents extents = ir::global_extents(shape, sizes_);
  ir::Part part = ir::part_of(mesh(), layout, extents, rank_);
  return {std::move(extents), std::move(part)};
}

View RankPlan::view(const sched::KernelStep& step, sched::BufferId id, ir::ValueId through) const {
  const bool is_reshape = through >= 0 && graph().at(through).op == ir::Op::reshape;
  return view_of(sched::factors_in(plan(), step, id, through),
                 is_reshape ? part(through) : buffer_part(id), domain(step));
}

abi::Lookup RankPlan::lookup(ir::ValueId id) const {
  const ir::Node& gather = graph().at(id);
  const ir::ValueId from = gather.operands.front();
  const int dim = gather.attributes.dim;
  return {.extent = extents(from)[dim],
          .first = part(from).begin[dim],
          .count = part(from).extent[dim],
          .stride = row_of(part(from), dim + 1)};
}

View RankPlan::view_of_whole(const sched::KernelStep& step, ir::ValueId id) const {
  const ir::Extents& whole = extents(id);
  return view_of(ir::aligned(graph().at(id).shape, graph().at(step.domain).shape),
                 {ir::Extents(whole.size(), 0), whole}, domain(step));
}

abi::Slices RankPlan::slices(const sched::KernelStep& step) const {
  const ir::ValueId id = step.combine >= 0 ? step.combine : step.spread;
  const ir::Node& collective = graph().at(id);
  const ir::ValueId operand = collective.operands.front();
  const bool scatters = collective.op == ir::Op::reduce_scatter;
  if (!scatters && collective.op != ir::Op::all_gather) {
    return slices_of_one(part(id).count(),
                         collective.op == ir::Op::send ? 0 : collective.attributes.root);
  }
  const ir::Node& slice = scatters ? collective : graph().at(operand);
  const int dim = slice.layout[step.axis].dim;
  return slices_along(part(scatters ? operand : id).extent, dim, ranks(step.axis));
}

}  // namespace coconet::jit
