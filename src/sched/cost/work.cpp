// Counting what steps do.
#include "sched/cost/work.h"

#include <algorithm>
#include <span>

#include "ir/factors.h"
#include "sched/cost/coherence.h"
#include "sched/knobs.h"

namespace coconet::sched {

namespace {

using ir::Extents;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// What `op` costs an element beside an addition. A random word is a quarter of a Philox4x32-10: 10
/// rounds of 2 multiplications for 4 elements.
double cost_of(Op op) {
  if (const ir::PointwiseRow* const row = ir::find_pointwise(op)) return row->cost;
  if (ir::draws_random(op)) return 20;
  return ir::hands_on(op) || op == Op::update ? 0 : 1;
}

std::string exchange_way(const Knobs& knobs) {
  const Knobs chosen = with_defaults(knobs);
  return chosen.algorithm + ", " + chosen.protocol;
}

class Counter {
 public:
  Counter(const Plan& plan, const ir::Sizes& sizes)
      : plan_(plan), graph_(plan.graph), sizes_(sizes) {}

  Work count(const KernelStep& step) const {
    Work work;
    work.name = step.name;
    work.in_place = step.in_place;
    if (!step.in_place) work.way = exchange_way(step.knobs);
    const Extents domain = part(step.domain);
    const auto elements = static_cast<double>(ir::product(domain));
    work.dtype = graph_.at(step.domain).dtype;
    for (const KernelStep::Phase& phase : step.phases) {
      for (const KernelStep::Load& load : phase.loads) {
        const ir::Factors factors = factors_in(plan_, step, load.buffer, load.view());
        const Seen seen = seen_in(plan_, load.buffer, load.view());
        const double bytes = bytes_within(load.buffer, seen, factors, domain);
        if (load.viewed && ir::is_gather(graph_.at(load.value).op)) {
          const std::size_t size = size_of(plan_.buffers[load.buffer].dtype);
          work.bytes += std::min(bytes, elements * static_cast<double>(size));
          continue;
        }
        if (!load.combined) work.bytes += bytes;
        work.jumps += jumps_within(seen, factors, domain) * (load.combined ? ranks_of(step) : 1);
      }
      for (const KernelStep::Store& store : phase.stores) {
        const ir::Factors factors = factors_in(plan_, step, store.buffer);
        const Seen seen = seen_in(plan_, store.buffer);
        if (!store.spread) work.bytes += bytes_within(store.buffer, seen, factors, domain);
        work.jumps += jumps_within(seen, factors, domain) * (store.spread ? ranks_of(step) : 1);
      }
      for (const ValueId id : phase.members)
        work.operations += cost_of(graph_.at(id).op) * elements;
      work.operations += static_cast<double>(phase.reductions.size()) * elements;
      if (step.is_collective) work.totals += static_cast<int>(phase.reductions.size());
    }
    for (const ValueId id : {step.combine, step.spread}) {
      if (id >= 0) work.exchanges.push_back(exchange_of(id));
    }
    return work;
  }

  Work count(const LibraryStep& step) const {
    Work work;
    work.name = step.name;
    work.kind = Work::Kind::library;
    work.dtype = graph_.at(step.value).dtype;
    work.exchanges = {exchange_of(step.value)};
    const ValueId in = graph_.at(step.value).operands.front();
    work.bytes = packed(in, step.value, work.exchanges.front().axis) +
                 packed(step.value, in, work.exchanges.front().axis);
    return work;
  }

  Work count(const MatmulStep& step) const {
    Work work;
    work.name = step.name;
    work.kind = Work::Kind::matmul;
    const Node& node = graph_.at(step.value);
    work.dtype = node.dtype;
    for (const BufferId id : {step.a, step.b, step.bias, step.out}) {
      if (id >= 0) work.bytes += bytes_of(id);
    }
    double terms = 1;
    for (const std::size_t dim : ir::contracted_dims(ir::factors_of(graph_, node, 0)))
      terms *= static_cast<double>(part(node.operands.front()).at(dim));
    work.operations = 2 * terms * static_cast<double>(ir::product(part(step.value)));
    return work;
  }

  [[nodiscard]] double bytes_of(BufferId id) const {
    const PlanBuffer& buffer = plan_.buffers[id];
    const Extents extents = ir::global_extents(buffer.shape, sizes_);
    return static_cast<double>(ir::block_count(graph_.mesh, buffer.layout, extents)) *
           static_cast<double>(size_of(buffer.dtype));
  }

  /// What a rank reads or writes of other ranks' memory for the collective `id`, which an
  /// all_reduce does to halves.
  [[nodiscard]] double moved_for(ValueId id) const {
    const Exchange exchange = exchange_of(id);
    const int ranks = graph_.mesh.axes()[exchange.axis].size;
    const double moved = ranks == 1 ? 0 : moved_by(exchange, ranks).remote;
    return exchange.op == Op::all_reduce ? moved / 2 : moved;
  }

 private:
  /// Bytes read and written to put the slices of `tensor` that `sliced` has along `axis` one after
  /// the other, which they are where it is sliced along its first dimension.
  [[nodiscard]] double packed(ValueId tensor, ValueId sliced, int axis) const {
    const Placement placement = graph_.at(sliced).layout[static_cast<std::size_t>(axis)];
    if (placement.kind != Placement::Kind::sliced) return 0;
    const Extents whole = part(tensor);
    const auto rows = std::span(whole).first(static_cast<std::size_t>(placement.dim));
    if (std::ranges::all_of(rows, [](std::int64_t extent) { return extent == 1; })) return 0;
    return 2 * static_cast<double>(ir::product(whole)) *
           static_cast<double>(size_of(graph_.at(tensor).dtype));
  }

  /// What the first rank, which never has less than another, holds of a value.
  [[nodiscard]] Extents part(ValueId id) const { return ir::part_of(graph_, id, sizes_, 0).extent; }

  /// Bytes of `id` that a pass over the part of `domain` touches: a dimension that repeats once, a
  /// replicated one where the part is.
  [[nodiscard]] double bytes_within(BufferId id, const Seen& seen, const ir::Factors& factors,
                                    const Extents& domain) const {
    const Extents extents = ir::global_extents(seen.shape, sizes_);
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const bool passes = factors[d].kind == ir::Factor::Kind::passes;
      const auto to = static_cast<std::size_t>(factors[d].of_result);
      elements *= passes ? std::min(extents[d], domain[to]) : extents[d];
    }
    return static_cast<double>(elements) * static_cast<double>(size_of(plan_.buffers[id].dtype));
  }

  [[nodiscard]] double ranks_of(const KernelStep& step) const {
    return graph_.mesh.axes()[step.axis].size;
  }

  /// Parts of rows of what is `seen` that a pass over `domain` touches, where it touches only
  /// parts.
  [[nodiscard]] double jumps_within(const Seen& seen, const ir::Factors& factors,
                                    const Extents& domain) const {
    const Extents held =
        ir::part_of(graph_.mesh, seen.layout, ir::global_extents(seen.shape, sizes_), 0).extent;
    double rows = 1;
    bool is_cut = false;
    for (std::size_t d = held.size(); d-- > 0;) {
      const bool passes = factors[d].kind == ir::Factor::Kind::passes;
      const std::int64_t own = held[d];
      const std::int64_t used =
          passes ? domain[static_cast<std::size_t>(factors[d].of_result)] : own;
      if (is_cut) rows *= static_cast<double>(std::min(own, used));
      is_cut = is_cut || own > used;
    }
    return is_cut && rows > 1 ? rows : 0;
  }

  [[nodiscard]] Exchange exchange_of(ValueId id) const {
    const Node& node = graph_.at(id);
    const ValueId whole =
        node.op == Op::all_gather || node.op == Op::all_to_all ? id : node.operands.front();
    return {
        node.op, node.attributes.axis,
        static_cast<double>(ir::product(part(whole))) * static_cast<double>(size_of(node.dtype))};
  }

  const Plan& plan_;
  const ir::Graph& graph_;
  const ir::Sizes& sizes_;
};

}  // namespace

Moved moved_by(const Exchange& exchange, int ranks) {
  const double whole = exchange.bytes, part = whole / ranks;
  switch (exchange.op) {
    case Op::reduce_scatter:  // a slice of every rank's tensor is read
      return {whole, whole - part};
    case Op::all_gather:  // its own slice is written to every rank's
      return {whole, whole - part};
    case Op::all_reduce:  // both
      return {2 * whole, 2 * (whole - part)};
    case Op::reduce:  // the root reads all of every rank's
      return {ranks * whole, (ranks - 1) * whole};
    case Op::broadcast:
      return {ranks * whole, (ranks - 1) * whole};
    default:
      return {whole, whole};
  }
}

std::vector<Moved> traffic_of(const Plan& plan, const PlanWork& work) {
  std::vector<Moved> traffic;
  for (const Work& step : work.steps) {
    Moved& sum = traffic.emplace_back(Moved{step.bytes, 0});
    for (const Exchange& exchange : step.exchanges) {
      const int ranks = plan.graph.mesh.axes()[exchange.axis].size;
      const Moved moved = ranks == 1 ? Moved() : moved_by(exchange, ranks);
      sum.all += moved.all;
      sum.remote += moved.remote;
    }
  }
  return traffic;
}

PlanWork work_of(const Plan& plan, const ir::Sizes& sizes) {
  const Counter counter(plan, sizes);
  PlanWork work;
  for (const PlanStep& step : plan.steps)
    work.steps.push_back(std::visit([&](const auto& one) { return counter.count(one); }, step));
  const auto moved_for = [&](ValueId id) { return counter.moved_for(id); };
  const std::vector<double> lines = moved_lines(
      plan, [&](BufferId id) { return counter.bytes_of(id); }, moved_for);
  for (std::size_t i = 0; i < lines.size(); ++i) work.steps[i].lines = lines[i];
  for (BufferId id = 0; id < plan.buffers.count(); ++id) {
    if (plan.buffers[id].same_as < 0) work.footprint += counter.bytes_of(id);
  }
  return work;
}

}  // namespace coconet::sched
