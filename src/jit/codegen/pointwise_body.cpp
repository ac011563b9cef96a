// The body of a loop: what lanes load, compute and store.
#include <fmt/format.h>

#include "jit/codegen/pointwise_kernel.h"

namespace coconet::jit {

using Along = KernelWriter::Along;
using ir::Node;
using ir::ValueId;
using sched::BufferId;

PointwiseKernel::Body PointwiseKernel::write_body(const sched::KernelStep::Phase& phase,
                                                  const std::string& indent) {
  Body body;
  body.loads = write_loads(phase, indent);
  body.lanes = write_lanes(phase, indent);
  write_stores(phase, indent, body);
  body.loop = loop_of(phase, body);
  return body;
}

std::string_view PointwiseKernel::loop_of(const sched::KernelStep::Phase& phase,
                                          const Body& body) const {
  const bool needs_vectors =
      !phase.reductions.empty() || root() >= 0 || sends() || calls_waves(body.lanes) ||
      std::ranges::any_of(phase.members, [&](ValueId id) { return writer_.is_indexed(id); }) ||
      std::ranges::any_of(phase.loads, [&](const auto& load) { return writer_.is_strided(load); });
  if (needs_vectors) return "BY_VECTORS";
  std::set<DType> dtypes;
  for (const ValueId id : phase.members) dtypes.insert(at(id).dtype);
  for (const auto& load : phase.loads) dtypes.insert(at(load.value).dtype);
  for (const auto& store : phase.stores) dtypes.insert(writer_.buffer(store.buffer).dtype);
  const bool is_alike = dtypes == std::set{DType::f32} || dtypes == std::set{DType::f64};
  return is_alike && !chooses(body.lanes) ? "BY_ELEMENTS" : "BY_EITHER";
}

std::string PointwiseKernel::row_of(BufferId buffer, ValueId view) {
  auto& row = rows_[{buffer, view}];
  if (row.empty()) {
    row = writer_.unique(writer_.buffer(buffer).name + "_row");
    row_starts_ += fmt::format("    const index_t {} = {};\n", row,
                               writer_.strided_index(rank() - 1, buffer, view));
  }
  return row;
}

std::string PointwiseKernel::index(BufferId buffer) {
  if (linear_) return writer_.linear_index(buffer);
  const bool repeats = writer_.along_row(writer_.buffer(buffer).shape) == Along::repeats;
  return repeats ? row_of(buffer) : row_of(buffer) + " + i";
}

std::string PointwiseKernel::stored_vector(const sched::KernelStep::Load& load) {
  if (!linear_) return writer_.load_of_row(load, row_of(load.buffer, load.view()), "i");
  const std::string at = index(load.buffer);
  return fmt::format("load<N>({} + {})", writer_.pointer(load.buffer), at);
}

std::string PointwiseKernel::place_members(const sched::KernelStep::Phase& phase,
                                           const std::string& indent) {
  std::string text;
  for (const ValueId member : phase.members) {
    if (!writer_.is_indexed(member)) continue;
    const Node& node = at(member);
    const bool repeats = !linear_ && writer_.along_row(node.shape) == Along::repeats;
    std::string index;
    if (linear_) {
      index = writer_.linear_index_in_whole(member);
    } else {
      index = writer_.unique(node.name + "_row");
      row_starts_ += fmt::format("    const index_t {} = {};\n", index,
                                 writer_.strided_index(rank() - 1, member));
      if (!repeats) index += " + i";
    }
    text += writer_.place(member, repeats, index, indent);
  }
  return text;
}

std::string PointwiseKernel::combined_vector(const sched::KernelStep::Load& load) {
  if (!step_.in_place) return "combined";
  const std::string at_lane = index(load.buffer);
  // A switch rounds sums to f16, of which many leave its range whose mean does not.
  const Node& combine = at(step_.combine);
  const bool by_ranks = step_.multicast && combine.dtype == DType::f16 &&
                        combine.attributes.reduction == Reduction::mean;
  const std::string all =
      fmt::format("reduce_ranks<{}, N, STREAM>({}{}, {})", operator_of(step_.combine),
                  writer_.pointers(load.buffer), by_ranks ? ".rank" : "", at_lane);
  if (root() < 0) return all;
  return fmt::format("a.sync.rank == {} ? {} : no_totals<sum_of, N, {}>()", root(), all,
                     compute_type(combine.dtype));
}

std::string PointwiseKernel::write_loads(const sched::KernelStep::Phase& phase,
                                         const std::string& indent) {
  std::string text;
  for (const auto& load : phase.loads) {
    const Node& node = at(load.value);
    if (load.combined) {
      const Node& combine = at(step_.combine);
      const std::string all = writer_.unique(node.name + "_all");
      text += fmt::format("{0}{1}\n{0}const auto {2} = {3};\n", indent,
                          writer_.label(step_.combine), all, combined_vector(load));
      std::string total = all + "[l]";
      if (combine.attributes.reduction == Reduction::mean)
        total += " / " + literal(writer_.ranks(), combine.dtype);
      from_vectors_.push_back({step_.combine, writer_.rounded(total, combine.dtype)});
      continue;
    }
    if (writer_.gathers(load)) {
      writer_.gather_from(load, row_of(load.buffer, load.view()), "i");
      continue;
    }
    if (!linear_ && writer_.along_row(load) == Along::repeats) {
      const std::string row = row_of(load.buffer, load.view());
      const std::string pointer = writer_.pointer(load.buffer);
      text += fmt::format("{}const {} {} = wide({}[{}]);\n", indent, writer_.lane_type(node.dtype),
                          writer_.variable(load.value), pointer, row);
      writer_.define(load.value);
      continue;
    }
    const std::string stored = stored_vector(load);
    const std::string vector = writer_.unique(node.name + "_in");
    text +=
        fmt::format("{}const auto {} = {};\n", indent, vector, writer_.loaded(stored, node.dtype));
    from_vectors_.push_back({load.value, vector + "[l]"});
  }
  return text;
}

std::string PointwiseKernel::write_lanes(const sched::KernelStep::Phase& phase,
                                         const std::string& indent) {
  std::string declarations = place_members(phase, indent), conversions;
  std::string text;
  for (const auto& [value, element] : from_vectors_) {
    text += fmt::format("{}  const {} {} = {};\n", indent, writer_.lane_type(at(value).dtype),
                        writer_.variable(value), element);
    writer_.define(value);
  }
  text += writer_.compute_members(phase.members, indent + "  ");
  const Collected collected = collect_for_totals(phase, indent);
  declarations += collected.declarations;
  text += collected.lanes;
  outs_.clear();
  std::string spread;
  for (const auto& store : phase.stores) {
    // What is spread is one vector, wherever it is written.
    if (store.spread && !spread.empty()) {
      outs_.push_back(spread);
      continue;
    }
    const DType dtype = writer_.buffer(store.buffer).dtype;
    const std::string out = writer_.unique(writer_.buffer(store.buffer).name + "_out");
    outs_.push_back(out);
    if (store.spread) spread = out;
    const bool converts = writer_.is_converted(dtype);
    const std::string computed = converts ? writer_.unique(out + "_wide") : out;
    declarations += fmt::format("{}vec<N, {}> {};\n", indent, writer_.lane_type(dtype), computed);
    text += fmt::format("{}  {}[l] = {};\n", indent, computed,
                        writer_.read_to_store(store.value, dtype));
    if (converts) {
      conversions +=
          fmt::format("{}const auto {} = {};\n", indent, out, writer_.to_store(computed, dtype));
    }
  }
  return declarations + indent + lanes_over(text) + "\n" + text + indent + "});\n" +
         collected.additions + conversions;
}

bool PointwiseKernel::is_kept(BufferId id) const {
  return writer_.buffer(id).role == sched::PlanBuffer::Role::temporary && step_.phases.size() > 1 &&
         linear_ && !writer_.by_bucket() && step_.in_place && stores_to_ranks();
}

void PointwiseKernel::write_stores(const sched::KernelStep::Phase& phase, const std::string& indent,
                                   Body& body) {
  for (std::size_t s = 0; s < phase.stores.size(); ++s) {
    const auto& store = phase.stores[s];
    if (!store.spread) {
      const std::string at_lane = index(store.buffer);
      const std::string operands =
          fmt::format("({} + {}, {});\n", writer_.pointer(store.buffer), at_lane, outs_[s]);
      const bool streams = is_kept(store.buffer) && at_lane == "i";
      body.stores += indent +
                     (streams ? "if (STREAM) stream<N>" + operands + indent + "else " : "") +
                     "store<N>" + operands;
      continue;
    }
    body.spread = outs_[s];
    if (sends() && !step_.in_place) continue;
    const std::string guard = root() < 0 ? "" : fmt::format("if (a.sync.rank == {}) ", root());
    if (!step_.in_place) {
      body.stores +=
          fmt::format("{}{}store_slice<N>({}, a.slices, int(a.sync.rank), {}, {});\n", indent,
                      guard, writer_.pointer(store.buffer), linear_ ? "i" : "at", outs_[s]);
      continue;
    }
    const std::string at_lane = index(store.buffer);
    const std::string ranks = writer_.pointers(store.buffer);
    if (sends()) {
      body.stores += fmt::format("{}send_on<STREAM>({}, {}, a.sync.rank, {}, {});\n", indent, ranks,
                                 at_lane, at(step_.spread).attributes.offset, outs_[s]);
      continue;
    }
    const std::string own = writer_.unique(writer_.buffer(store.buffer).name + "_own");
    const std::string to = fmt::format("{}, {}, {}", ranks, own, at_lane);
    body.own +=
        fmt::format("{}auto* const {} = own_of({}, a.sync.rank);\n", indent.substr(2), own, ranks);
    body.stores += fmt::format("{}{}store_ranks<STREAM>({}, {});\n", indent, guard, to, outs_[s]);
    body.streams += fmt::format("{}{}stream_ranks({}, length);\n", indent, guard, to);
  }
}

}  // namespace coconet::jit
