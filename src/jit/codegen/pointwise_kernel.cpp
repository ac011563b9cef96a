// A kernel as a whole: its phases with their scalars, reductions and loops.
#include "jit/codegen/pointwise_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "jit/codegen/tile_sync.h"

namespace coconet::jit {

using ir::ValueId;
using sched::BufferId;
using Kind = KernelArgument::Kind;

KernelText PointwiseKernel::write() {
  if (step_.is_collective) (void)writer_.argument({Kind::sync, "sync"});
  if (!writer_.by_bucket())
    count_ = linear_ ? writer_.argument({Kind::count, "count"}) : last_extent();
  mode_ = writer_.argument({Kind::mode, "mode"});
  // Without stores past the caches there is one loop less to compile.
  if (!stores_to_ranks()) mode_ += " & ~u64(STREAMING)";
  if (totals_of(writer_.graph(), step_).counts_blocks)
    totals_ = writer_.argument({Kind::totals, "totals"});

  const bool waits_for_root = overwrites_operand();
  const auto orders = [&](const char* what) { return step_.multicast ? what : ""; };
  const std::string last_barrier = fmt::format("rank_barrier{}(block, a.sync, {})",
                                               orders("<MULTICAST_BEFORE>"), step_.phases.size());
  std::string text = load_scalars();
  for (std::size_t p = 0; p < step_.phases.size(); ++p) {
    if (waits_for_root && p + 1 == step_.phases.size()) {
      text += fmt::format(
          "  // what the other ranks write is what the root has read by now\n"
          "  if (a.sync.rank != {} && !{}) return;\n",
          root(), last_barrier);
    }
    text += write_phase(p);
  }
  text += store_scalars();

  std::string body = fmt::format(
      "constexpr int W = {};\n\n{} void {}_block(const Args& a, const Block& block) {{\n",
      writer_.lanes_per_access(), has_loops_by_elements_ ? "DEVICE_BODY" : "DEVICE",
      writer_.entry());
  body += writer_.number_variables();
  if (step_.in_place && !begins_with_totals()) {
    body += "  // every rank's operand is written, and its results may be\n";
    body += fmt::format("  if (!rank_barrier{}(block, a.sync, 0)) return;\n",
                        orders("<MULTICAST_AFTER>"));
  }
  body += text;
  if (step_.in_place) {
    body += "  // every rank's result is written, and no operand is read any more\n";
    const std::string who = waits_for_root ? fmt::format("if (a.sync.rank == {}) ", root()) : "";
    body += fmt::format("  {}{};\n", who, last_barrier);
  }
  body += "}\n";
  KernelText kernel = writer_.finish(body, headers());
  kernel.first_barrier = begins_with_totals() ? 1 : 0;
  return kernel;
}

bool PointwiseKernel::begins_with_totals() const {
  const sched::KernelStep::Phase& first = step_.phases.front();
  return step_.in_place && !step_.multicast && step_.combine < 0 && first.stores.empty() &&
         !first.reductions.empty();
}

bool PointwiseKernel::overwrites_operand() const {
  if (!step_.in_place || step_.combine < 0 || at(step_.combine).op != ir::Op::reduce) return false;
  const std::vector<sched::KernelStep::Load> loads = step_.loads();
  const std::vector<sched::KernelStep::Store> stores = step_.stores();
  return std::ranges::any_of(loads, [&](const auto& load) {
    return load.combined && std::ranges::any_of(stores, [&](const auto& store) {
             return !store.spread && store.buffer == load.buffer;
           });
  });
}

bool PointwiseKernel::stores_to_ranks() const {
  const auto spreads = [](const auto& phase) {
    return std::ranges::any_of(phase.stores, &sched::KernelStep::Store::spread);
  };
  return step_.in_place && std::ranges::any_of(step_.phases, spreads);
}

std::vector<std::string> PointwiseKernel::headers() const {
  if (!step_.is_collective) return {};
  if (step_.multicast) return {"exchange/direct.h", std::string(algorithm_.header)};
  if (step_.in_place) return {"exchange/direct.h"};
  std::vector<std::string> headers{"exchange/protocols.h", "exchange/mailboxes.h"};
  if (!protocol_.header.empty()) headers.emplace_back(protocol_.header);
  if (synchronizes_tiles(step_)) headers.emplace_back("exchange/tiles.h");
  headers.emplace_back(algorithm_.header);
  return headers;
}

std::string PointwiseKernel::load_scalars() {
  std::string text;
  for (const auto& load : step_.scalar_loads) {
    if (is_per_buffer(load.value)) {
      buffer_values_.push_back({.value = load.value, .buffer = load.buffer});
      continue;
    }
    text += fmt::format("  const {} {} = wide(*{});\n", writer_.lane_type(at(load.value).dtype),
                        writer_.variable(load.value), writer_.pointer(load.buffer));
    scalars_.insert(load.value);
  }
  return text;
}

std::string PointwiseKernel::compute_scalars(const std::vector<ValueId>& values) {
  writer_.begin_phase(scalars_);
  std::vector<ValueId> single;
  for (const ValueId id : values) {
    if (is_per_buffer(id)) {
      buffer_values_.push_back({.value = id});
    } else {
      single.push_back(id);
    }
  }
  const std::string text = writer_.compute_members(single, "  ", false);
  scalars_.insert(single.begin(), single.end());
  return text;
}

std::string PointwiseKernel::store_scalars() {
  const std::string of_buffers = store_buffer_values();
  const bool single = std::ranges::any_of(
      step_.scalar_stores, [&](const auto& store) { return !is_per_buffer(store.value); });
  if (!single) return of_buffers;
  writer_.begin_phase(scalars_);
  std::string text = of_buffers + "  if (block.index == 0 && is_leader(block)) {\n";
  for (const auto& store : step_.scalar_stores) {
    if (is_per_buffer(store.value)) continue;
    const DType dtype = writer_.buffer(store.buffer).dtype;
    const std::string value = writer_.stored(writer_.read_to_store(store.value, dtype), dtype);
    text += fmt::format("    *{} = {};\n", writer_.pointer(store.buffer), value);
  }
  return text + "  }\n";
}

std::string PointwiseKernel::write_phase(std::size_t p) {
  const sched::KernelStep::Phase& phase = step_.phases[p];
  std::string text = compute_scalars(phase.scalars);
  if (phase.stores.empty() && phase.reductions.empty()) return text;
  writer_.begin_phase(scalars_);
  rows_.clear();
  row_starts_.clear();
  from_vectors_.clear();
  const std::string totals = declare_totals(phase, false, "  ");
  const auto combined = std::ranges::find_if(phase.loads, &sched::KernelStep::Load::combined);
  const bool spreads = std::ranges::any_of(phase.stores, &sched::KernelStep::Store::spread);
  if (!step_.is_collective || step_.in_place || (combined == phase.loads.end() && !spreads)) {
    const std::string loop = totals + write_loop(phase) + put_totals(phase);
    text += writer_.take_random_variables();
    text += totals.empty()
                ? loop
                : fmt::format(
                      "  for_each_share(block, {}, [&](const Block& block) INLINED {{\n{}  }});\n",
                      totals_, loop);
  } else {
    const std::string exchange =
        write_exchange(phase, combined == phase.loads.end() ? nullptr : &*combined, spreads);
    text += totals + writer_.take_random_variables();
    // A scope for the functions of every pass.
    text += step_.phases.size() > 1 ? "  {\n" + exchange + "  }\n" : exchange;
    text += put_totals(phase);
  }
  return text + combine_totals(phase, p);
}

std::string PointwiseKernel::write_loop(const sched::KernelStep::Phase& phase) {
  if (writer_.by_bucket()) return write_bucket_loop(phase);
  const std::string indent = linear_ ? "    " : "      ";
  const Body body = write_body(phase, indent);
  if (linear_ && synchronizes_tiles(phase)) return write_tiled_loop(phase, body);
  if (linear_) return loop_over(body, "  ", "for_each", "block, " + count_ + ", " + mode_);
  if (goes_in_tiles(phase)) {
    return fmt::format(
               "  for_each_tile(block, {}, {}, [&](index_t row, index_t begin, index_t end) "
               "INLINED {{\n",
               writer_.argument({Kind::rows, "rows"}), count_) +
           coordinates() + row_starts_ +
           loop_over(body, "    ", "for_each_of", "alone(block), begin, end, " + mode_) + "  });\n";
  }
  const std::string begin = "row * " + count_;
  const std::string end = begin + " + " + count_;
  return write_row_loop() + await_arriving(writer_, phase, begin, end, "    ") +
         loop_over(body, "    ", "for_each_of", "alone(block), 0, " + count_ + ", " + mode_) +
         signal_departing(writer_, phase, begin, end, "    ") + "  }\n" +
         (stores_to_ranks() ? fmt::format("  order_streams({});\n", mode_) : "");
}

std::string PointwiseKernel::loop_over(const Body& body, std::string_view indent,
                                       std::string_view function, std::string_view arguments,
                                       std::string_view index, std::string_view find_i) {
  const bool by_vectors = body.loop == "BY_VECTORS";
  if (!by_vectors) has_loops_by_elements_ = true;
  std::string text = body.own;
  if (!body.streams.empty()) {
    text +=
        fmt::format("{0}const auto streams = [&](index_t {1}, index_t length) {{\n{2}{3}{0}}};\n",
                    indent, index, find_i, body.streams);
  }
  text += fmt::format("{}{}<W{}>({},{}", indent, function,
                      by_vectors ? "" : ", " + std::string(body.loop), arguments,
                      body.streams.empty() ? " " : " streams,\n    " + std::string(indent));
  return text +
         fmt::format("[&]<int N, bool STREAM>(width<N, STREAM>, index_t {}) INLINED {{\n", index) +
         std::string(find_i) + body.loads + body.lanes + body.stores + std::string(indent) +
         "});\n";
}

std::string PointwiseKernel::write_tiled_loop(const sched::KernelStep::Phase& phase,
                                              const Body& body) {
  const std::string end = "share.begin + share.count";
  const std::string await = await_arriving(writer_, phase, "share.begin", end, "  ");
  return fmt::format("  {{\n  const Chunk share = chunk_of<W>(block, {0}, {0}, 0);\n", count_) +
         await +
         loop_over(body, "  ", "for_each", "alone(block), share.count, " + mode_, "of_share",
                   "    const index_t i = share.begin + of_share;\n") +
         signal_departing(writer_, phase, "share.begin", end, "  ") + "  }\n";
}

std::string PointwiseKernel::write_bucket_loop(const sched::KernelStep::Phase& phase) {
  std::string header = declare_totals(phase, true, "    ");
  std::set<ValueId> repeated;
  for (const ValueId id : phase.members) {
    if (at(id).op == ir::Op::repeat) repeated.insert(writer_.resolve(at(id).operands.front()));
  }
  const std::string values = compute_buffer_values(std::move(repeated), "    ");
  if (!values.empty()) header += "    const index_t buffer = bucket.buffer;\n" + values;
  const Body body = write_body(phase, "      ");
  const std::string fits = write_fits(phase, "    ");
  const std::string totals = put_buffer_totals(phase, "    ");
  const std::string variables = writer_.bucket_variables("    ");
  return row_starts_ +
         fmt::format("  for_each_bucket(block, {}, [&](const Bucket& bucket) INLINED {{\n",
                     writer_.buckets()) +
         variables + header + fits +
         loop_over(body, "    ", "for_each_of", "alone(block), i, i + bucket.length, bucket_mode") +
         totals + "  });\n" + put_empty_totals(phase) +
         fmt::format("  order_streams({});\n", mode_);
}

std::string PointwiseKernel::compute_buffer_values(std::set<ValueId> needed,
                                                   const std::string& indent) {
  for (auto value = buffer_values_.rbegin(); value != buffer_values_.rend(); ++value) {
    const bool computed = value->buffer < 0 && value->reduction < 0;
    if (!computed || !needed.contains(value->value)) continue;
    for (const ValueId operand : at(value->value).operands) needed.insert(writer_.resolve(operand));
  }
  std::string text;
  for (const BufferValue& known : buffer_values_) {
    const ValueId id = known.value;
    if (!needed.contains(id)) continue;
    const std::string_view type = writer_.lane_type(at(id).dtype);
    if (known.buffer >= 0) {
      text += fmt::format("{}const {} {} = wide({}[buffer]);\n", indent, type, writer_.variable(id),
                          writer_.pointer(known.buffer));
    } else if (known.reduction >= 0) {
      const std::string total =
          fmt::format("all_buffer_totals<{}, {}>(a.sync, {}, {}, {}, buffer)", operator_of(id),
                      total_type(id), buffer_rows(), buffer_totals(), known.reduction);
      text += fmt::format("{0}{1}\n{0}const {2} {3} = {4};\n", indent, writer_.label(id), type,
                          writer_.variable(id), writer_.rounded_total(total, type, at(id).dtype));
    } else {
      text += writer_.compute_members({id}, indent, false);
    }
    writer_.define(id);
  }
  return text;
}

std::string PointwiseKernel::store_buffer_values() {
  std::set<ValueId> stored;
  for (const auto& store : step_.scalar_stores) {
    if (is_per_buffer(store.value)) stored.insert(writer_.resolve(store.value));
  }
  if (stored.empty()) return {};
  writer_.begin_phase(scalars_);
  std::string text;
  // Which other threads may still read: the last of their blocks writes.
  text += fmt::format(
      "  block_barrier(block);\n  if (is_last(block, {}.of[a.sync.rank], block.count)) {{\n"
      "    for_each_thread(block, {}.buffers, [&](index_t buffer) {{\n",
      totals_, buffer_rows());
  text += compute_buffer_values(std::move(stored), "      ");
  for (const auto& store : step_.scalar_stores) {
    if (!is_per_buffer(store.value)) continue;
    const DType dtype = writer_.buffer(store.buffer).dtype;
    text += fmt::format("      {}[buffer] = {};\n", writer_.pointer(store.buffer),
                        writer_.stored(writer_.read_to_store(store.value, dtype), dtype));
  }
  return text + "    });\n  }\n";
}

std::string PointwiseKernel::write_fits(const sched::KernelStep::Phase& phase,
                                        const std::string& indent) {
  std::string text =
      fmt::format("{0}const index_t i = bucket.begin;\n{0}u64 bucket_mode = {1};\n", indent, mode_);
  std::set<std::pair<BufferId, bool>> looked_at;
  const auto fit = [&](BufferId buffer, bool of_ranks) {
    const Shape& shape = writer_.buffer(buffer).shape;
    if (!linear_ && writer_.along_row(shape) == KernelWriter::Along::repeats) return;
    if (!looked_at.emplace(buffer, of_ranks).second) return;
    const std::string data = of_ranks ? "data" : writer_.pointer(buffer);
    const std::string loop =
        of_ranks ? fmt::format("for (const auto* data : {}) ", writer_.pointers(buffer)) : "";
    text += fmt::format("{}{}bucket_mode = fit<W>(bucket_mode, VECTORIZE{}, {} + {});\n", indent,
                        loop, of_ranks ? " | STREAMING" : "", data, index(buffer));
  };
  for (const auto& load : phase.loads) fit(load.buffer, load.combined && step_.in_place);
  for (const auto& store : phase.stores) fit(store.buffer, store.spread && step_.in_place);
  return text;
}

std::string PointwiseKernel::coordinates() {
  std::string text;
  std::string rest = "row";
  for (int d = rank() - 2; d > 0; --d) {
    const std::string extent = writer_.argument({Kind::extent, fmt::format("e{}", d), -1, -1, d});
    text +=
        fmt::format("    const index_t c{0} = {1} % {2};\n    const index_t r{0} = {1} / {2};\n", d,
                    rest, extent);
    rest = fmt::format("r{}", d);
  }
  if (rank() > 1) text += "    const index_t c0 = " + rest + ";\n";
  return text;
}

bool PointwiseKernel::goes_in_tiles(const sched::KernelStep::Phase& phase) const {
  return !step_.is_collective && std::ranges::any_of(phase.loads, [&](const auto& load) {
    return writer_.is_strided(load);
  });
}

std::string PointwiseKernel::write_row_loop() {
  const std::string rows = writer_.argument({Kind::rows, "rows"});
  return fmt::format(
             "  for (Rows turn = rows_of(block, {}); turn.next < turn.end; turn.next += turn.step) "
             "{{\n    const index_t row = turn.next;\n",
             rows) +
         coordinates() + row_starts_;
}

KernelText write_pointwise(const sched::Plan& plan, const sched::KernelStep& step) {
  return PointwiseKernel(plan, step).write();
}

}  // namespace coconet::jit
