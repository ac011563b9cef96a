// A kernel as a whole: its phases with their scalars, reductions and loops.
#include "jit/codegen/pointwise_kernel.h"

#include <algorithm>

#include "jit/codegen/tile_sync.h"

namespace coconet::jit {

using ir::ValueId;
using sched::BufferId;
using Kind = KernelArgument::Kind;

KernelText PointwiseKernel::write() {
  if (step_.is_collective) sync_ = writer_.argument({Kind::sync, "sync", -1, -1, 0});
  if (!writer_.by_bucket())
    count_ = linear_ ? writer_.argument({Kind::count, "count", -1, -1, 0}) : last_extent();
  mode_ = writer_.argument({Kind::mode, "mode", -1, -1, 0});
  if (!step_.reductions().empty()) totals_ = writer_.argument({Kind::totals, "totals", -1, -1, 0});

  std::string text = load_scalars();
  for (std::size_t p = 0; p < step_.phases.size(); ++p) text += write_phase(p);
  text += store_scalars();

  std::string body = "constexpr int W = " + lanes_per_access() + ";\n\n";
  body += "DEVICE void " + writer_.entry() + "_block(const Args& a, const Block& block) {\n";
  body += writer_.number_variables();
  if (step_.in_place) {
    body += "  // every rank's operand is written, and its results may be\n";
    body += "  if (!rank_barrier(block, a.sync, 0)) return;\n";
    if (step_.multicast) body += "  order_multicast();\n";
  }
  body += text;
  if (step_.in_place) {
    if (step_.multicast) body += "  order_multicast();\n";
    body += "  // every rank's result is written, and no operand is read any more\n";
    body += "  rank_barrier(block, a.sync, " + std::to_string(step_.phases.size()) + ");\n";
  }
  body += "}\n";
  return writer_.finish(body, headers());
}

std::vector<std::string> PointwiseKernel::headers() const {
  if (!step_.is_collective) return {};
  if (step_.multicast) return {"exchange/direct.h", std::string(algorithm_.header)};
  if (step_.in_place) return {"exchange/direct.h"};
  std::vector<std::string> headers{"exchange/mailboxes.h"};
  if (!protocol_.header.empty()) headers.emplace_back(protocol_.header);
  if (synchronizes_tiles(step_)) headers.emplace_back("exchange/tiles.h");
  headers.emplace_back(algorithm_.header);
  return headers;
}

std::string PointwiseKernel::lanes_per_access() const {
  if (step_.knobs.vector_bytes != 0) return std::to_string(lanes_of(writer_.plan(), step_, 0));
  return "VECTOR_BYTES / " + std::to_string(widest_element(writer_.plan(), step_));
}

std::string PointwiseKernel::load_scalars() {
  std::string text;
  for (const auto& load : step_.scalar_loads) {
    text += "  const " + std::string(compute_type(at(load.value).dtype)) + " " +
            writer_.variable(load.value) + " = wide(*" + writer_.pointer(load.buffer) + ");\n";
    scalars_.insert(load.value);
  }
  return text;
}

std::string PointwiseKernel::compute_scalars(const std::vector<ValueId>& values) {
  writer_.begin_phase(scalars_);
  const std::string text = writer_.compute_members(values, "  ", false);
  scalars_.insert(values.begin(), values.end());
  return text;
}

std::string PointwiseKernel::store_scalars() {
  if (step_.scalar_stores.empty()) return {};
  writer_.begin_phase(scalars_);
  std::string text = "  if (block.index == 0 && is_leader(block)) {\n";
  for (const auto& store : step_.scalar_stores) {
    const DType dtype = writer_.buffer(store.buffer).dtype;
    text += "    *" + writer_.pointer(store.buffer) + " = " +
            writer_.stored(writer_.read(store.value, dtype), dtype) + ";\n";
  }
  return text + "  }\n";
}

std::string PointwiseKernel::declare_totals(const sched::KernelStep::Phase& phase) {
  std::string text;
  for (const ValueId id : phase.reductions) {
    lane_totals_[id] = writer_.unique(at(id).name + "_lanes");
    text += "  auto " + lane_totals_[id] + " = no_totals<" + operator_of(id) + ", W, " +
            total_type(id) + ">();\n";
  }
  return text;
}

std::string PointwiseKernel::add_to_totals(const sched::KernelStep::Phase& phase,
                                           const std::string& indent) {
  std::string text;
  for (const ValueId id : phase.reductions) {
    const std::string lane = lane_totals_[id] + "[N > W ? l % W : l]";
    text += indent + writer_.label(id) + "\n" + indent + lane + " = " + operator_of(id) +
            "::apply(" + lane + ", " + total_type(id) + "(" +
            writer_.read(at(id).operands.front(), at(id).dtype) + "));\n";
  }
  return text;
}

std::string PointwiseKernel::combine_totals(const sched::KernelStep::Phase& phase, std::size_t p) {
  if (phase.reductions.empty()) return {};
  std::string puts;
  std::string gets;
  for (const ValueId id : phase.reductions) {
    const std::string index = std::to_string(reductions_++);
    puts += "  put_total(block, a.sync, a.totals, " + index + ", block_total<" + operator_of(id) +
            ">(block, fold<" + operator_of(id) + ">(" + lane_totals_[id] + ")));\n";
    const std::string total = std::string(compute_type(at(id).dtype)) + "(all_totals<" +
                              operator_of(id) + ", " + total_type(id) +
                              ">(block, a.sync, a.totals, " + index + "))";
    gets += "  " + writer_.label(id) + "\n  const " + std::string(compute_type(at(id).dtype)) +
            " " + writer_.variable(id) + " = " + writer_.rounded(total, at(id).dtype) + ";\n";
    scalars_.insert(id);
  }
  return puts + "  // every block of every rank has left its totals\n" +
         "  if (!grid_barrier(block, a.sync, " + std::to_string(p + 1) + ")) return;\n" + gets;
}

std::string PointwiseKernel::write_phase(std::size_t p) {
  const sched::KernelStep::Phase& phase = step_.phases[p];
  std::string text = compute_scalars(phase.scalars);
  if (phase.stores.empty() && phase.reductions.empty()) return text;
  writer_.begin_phase(scalars_);
  rows_.clear();
  row_starts_.clear();
  from_vectors_.clear();
  text += declare_totals(phase);
  const auto combined = std::find_if(phase.loads.begin(), phase.loads.end(),
                                     [](const auto& load) { return load.combined; });
  const bool spreads = std::any_of(phase.stores.begin(), phase.stores.end(),
                                   [](const auto& store) { return store.spread; });
  if (!step_.is_collective || step_.in_place || (combined == phase.loads.end() && !spreads)) {
    text += write_loop(phase);
  } else {
    text += write_exchange(phase, combined == phase.loads.end() ? nullptr : &*combined, spreads);
  }
  return text + combine_totals(phase, p);
}

std::string PointwiseKernel::write_loop(const sched::KernelStep::Phase& phase) {
  if (writer_.by_bucket()) return write_bucket_loop(phase);
  const std::string indent = linear_ ? "    " : "      ";
  const Body body = write_body(phase, indent);
  const std::string inside = body.loads + body.lanes + body.stores;
  if (linear_ && synchronizes_tiles(phase)) return write_tiled_loop(phase, inside);
  if (linear_) {
    return "  for_each<W>(block, " + count_ + ", " + mode_ +
           ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n" + inside + "  });\n";
  }
  const std::string begin = "row * " + count_;
  const std::string end = begin + " + " + count_;
  return write_row_loop() + await_arriving(writer_, phase, begin, end, "    ") +
         "    for_each<W>(alone(block), " + count_ + ", " + mode_ +
         ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n" + inside + "    });\n" +
         signal_departing(writer_, phase, begin, end, "    ") + "  }\n";
}

std::string PointwiseKernel::write_tiled_loop(const sched::KernelStep::Phase& phase,
                                              const std::string& inside) {
  return "  {\n  const Chunk share = chunk_of<W>(block, " + count_ + ", " + count_ + ", 0);\n" +
         await_arriving(writer_, phase, "share.begin", "share.begin + share.count", "  ") +
         "  for_each<W>(alone(block), share.count, " + mode_ +
         ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t of_share) {\n" +
         "    const index_t i = share.begin + of_share;\n" + inside + "  });\n" +
         signal_departing(writer_, phase, "share.begin", "share.begin + share.count", "  ") +
         "  }\n";
}

std::string PointwiseKernel::write_bucket_loop(const sched::KernelStep::Phase& phase) {
  const Body body = write_body(phase, "      ");
  const std::string fits = write_fits(phase, "    ");
  const std::string variables = writer_.bucket_variables("    ");
  return row_starts_ + "  for_each_bucket(block, " + writer_.buckets() +
         ", [&](const Bucket& bucket) {\n" + variables + fits +
         "    for_each_of<W>(alone(block), i, i + bucket.length, bucket_mode,\n" +
         "        [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n" + body.loads +
         body.lanes + body.stores + "    });\n  });\n  order_streams(" + mode_ + ");\n";
}

std::string PointwiseKernel::write_fits(const sched::KernelStep::Phase& phase,
                                        const std::string& indent) {
  std::string text =
      indent + "const index_t i = bucket.begin;\n" + indent + "u64 bucket_mode = " + mode_ + ";\n";
  std::set<std::pair<BufferId, bool>> looked_at;
  const auto fit = [&](BufferId buffer, bool of_ranks) {
    if (!linear_ && repeats(writer_.buffer(buffer).shape)) return;
    if (!looked_at.emplace(buffer, of_ranks).second) return;
    const std::string data = of_ranks ? "data" : writer_.pointer(buffer);
    text += indent;
    if (of_ranks) text += "for (const auto* data : " + writer_.pointers(buffer) + ") ";
    text += std::string("bucket_mode = fit<W>(bucket_mode, VECTORIZE") +
            (of_ranks ? " | STREAMING" : "") + ", " + data + " + " + index(buffer) + ");\n";
  };
  for (const auto& load : phase.loads) fit(load.buffer, load.combined && step_.in_place);
  for (const auto& store : phase.stores) fit(store.buffer, store.spread && step_.in_place);
  return text;
}

std::string PointwiseKernel::coordinates() {
  std::string text;
  std::string rest = "row";
  for (int d = rank() - 2; d > 0; --d) {
    const std::string extent = writer_.argument({Kind::extent, "e" + std::to_string(d), -1, -1, d});
    text += "    const index_t c" + std::to_string(d) + " = " + rest + " % " + extent + ";\n";
    text += "    const index_t r" + std::to_string(d) + " = " + rest + " / " + extent + ";\n";
    rest = "r" + std::to_string(d);
  }
  if (rank() > 1) text += "    const index_t c0 = " + rest + ";\n";
  return text;
}

std::string PointwiseKernel::write_row_loop() {
  const std::string rows = writer_.argument({Kind::rows, "rows", -1, -1, 0});
  return "  for (index_t row = block.index; row < " + rows + "; row += block.count) {\n" +
         coordinates() + row_starts_;
}

KernelText write_pointwise(const sched::Plan& plan, const sched::KernelStep& step) {
  return PointwiseKernel(plan, step).write();
}

}  // namespace coconet::jit
