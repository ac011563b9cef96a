// Reductions inside a kernel: what lanes add up, blocks leave behind a loop, and ranks combine
// between two phases.
#include <fmt/format.h>

#include <algorithm>

#include "jit/codegen/pointwise_kernel.h"

namespace coconet::jit {

using ir::ValueId;

std::string PointwiseKernel::total_type(ValueId reduction) const {
  return fmt::format("total_type<{}, {}>::type", operator_of(reduction),
                     compute_type(at(reduction).dtype));
}

std::string PointwiseKernel::declare_totals(const sched::KernelStep::Phase& phase, bool of_buffers,
                                            const std::string& indent) {
  std::string text;
  for (const ValueId id : phase.reductions) {
    if (at(id).attributes.per_buffer != of_buffers) continue;
    lane_totals_[id] = writer_.unique(at(id).name + "_totals");
    text += fmt::format("{}lane_totals<{}, W, {}> {};\n", indent, operator_of(id), total_type(id),
                        lane_totals_[id]);
  }
  return text;
}

PointwiseKernel::Collected PointwiseKernel::collect_for_totals(
    const sched::KernelStep::Phase& phase, const std::string& indent) {
  Collected text;
  for (const ValueId id : phase.reductions) {
    const std::string elements = writer_.unique(at(id).name + "_elements");
    text.declarations +=
        fmt::format("{}vec<N, {}> {};\n", indent, writer_.lane_type(at(id).dtype), elements);
    text.lanes += fmt::format("{}  {}[l] = {};\n", indent, elements,
                              writer_.read(at(id).operands.front(), at(id).dtype));
    text.additions += fmt::format("{0}{1}\n{0}{2}.add({3});\n", indent, writer_.label(id),
                                  lane_totals_[id], elements);
  }
  return text;
}

std::string PointwiseKernel::put_totals(const sched::KernelStep::Phase& phase) {
  std::string text;
  int index = reductions_;
  for (const ValueId id : phase.reductions) {
    if (at(id).attributes.per_buffer) continue;  // which its buckets have left already
    text += fmt::format(
        "  put_total(block, a.sync, a.totals, {0}, block_total<{1}>(block, {2}.fold()));\n",
        index++, operator_of(id), lane_totals_[id]);
  }
  return text;
}

std::string PointwiseKernel::combine_totals(const sched::KernelStep::Phase& phase, std::size_t p) {
  if (phase.reductions.empty()) return {};
  std::string sends;
  std::string gets;
  for (const ValueId id : phase.reductions) {
    if (at(id).attributes.per_buffer) continue;
    const int index = reductions_++;
    const std::string op_and_type = fmt::format("{}, {}", operator_of(id), total_type(id));
    sends +=
        fmt::format("        send_total<{}>(block, a.sync, a.totals, {});\n", op_and_type, index);
    const std::string_view type = compute_type(at(id).dtype);
    const std::string total =
        fmt::format("all_totals<{}>(a.sync, a.totals, {})", op_and_type, index);
    gets += fmt::format("  {}\n  const {} {} = {};\n", writer_.label(id), type,
                        writer_.variable(id), writer_.rounded_total(total, type, at(id).dtype));
    scalars_.insert(id);
  }
  return fetch_to_store(p + 1) +
         fmt::format(
             "  // every rank has sent its totals, which its last block does\n"
             "  if (!grid_barrier(block, a.sync, a.totals, {}, [&] {{\n{}      }})) return;\n",
             p + 1, sends) +
         gets;
}

std::string PointwiseKernel::fetch_to_store(std::size_t p) {
  // Where totals are the first that ranks meet for, others may not be here yet, and still read.
  const bool all_are_here = p > 1 || !begins_with_totals();
  const bool in_lines = linear_ && !writer_.by_bucket() && !step_.multicast;
  if (!stores_to_ranks() || step_.combine >= 0 || !in_lines || !all_are_here) return {};
  if (step_.spread < 0 || at(step_.spread).op != ir::Op::all_gather) return {};
  std::string text;
  for (const auto& store : step_.phases[p].stores) {
    if (!store.spread) continue;
    text += fmt::format(
        "  {{\n    const index_t i = 0;\n"
        "    fetch_to_store<W>(block, {}, {}, {}, a.sync.rank);\n  }}\n",
        writer_.pointers(store.buffer), writer_.linear_index(store.buffer), count_);
  }
  return text;
}

std::string PointwiseKernel::put_buffer_totals(const sched::KernelStep::Phase& phase,
                                               const std::string& indent) {
  std::string text;
  for (const ValueId id : phase.reductions) {
    if (!at(id).attributes.per_buffer) continue;
    text += fmt::format(
        "{0}put_buffer_total<{1}>(block, a.sync, {2}, {3}, {4}, &bucket - {5}.rows, "
        "bucket.buffer,\n{0}    block_total<{1}>(block, {6}.fold()));\n",
        indent, operator_of(id), buffer_rows(), buffer_totals(), buffer_reductions_,
        writer_.buckets(), lane_totals_[id]);
    buffer_values_.push_back({.value = id, .reduction = buffer_reductions_++});
  }
  return text;
}

std::string PointwiseKernel::put_empty_totals(const sched::KernelStep::Phase& phase) {
  std::string text;
  for (const BufferValue& known : buffer_values_) {
    const ValueId id = known.value;
    if (known.reduction < 0 || std::ranges::find(phase.reductions, id) == phase.reductions.end())
      continue;
    text += fmt::format("  put_empty_totals<{}, {}>(block, a.sync, {}, {}, {});\n", operator_of(id),
                        total_type(id), buffer_rows(), buffer_totals(), known.reduction);
  }
  // What the threads of a block have sent comes before the block arrives at the others.
  return text.empty() ? text : text + "  block_barrier(block);\n";
}

}  // namespace coconet::jit
