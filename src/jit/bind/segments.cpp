// Sizes of segments.
#include "jit/bind/segments.h"

#include <algorithm>

#include "ir/factors.h"

namespace coconet::jit {

namespace {

/// Results of a tile where threads are side by side: 4 of each, as if they were vectors of f32.
/// Alignment must not show in the bits.
constexpr std::int64_t tile_results = 4 * abi::THREADS_BESIDE;

std::int64_t parts_of(std::int64_t count, std::int64_t length) {
  return (count + length - 1) / length;
}

/// `rows` that `tiles` tiles of results combine, each `elements` of every row. There are as many
/// segments as keep a GPU busy, and no more: who completes a tile reads the totals of all.
SegmentsOf segments_of_tiles(std::int64_t tiles, std::int64_t rows, std::int64_t elements) {
  constexpr std::int64_t blocks = 512;
  SegmentsOf of{.count = 1, .length = std::max<std::int64_t>(1, rows), .parts = tiles};
  if (rows <= abi::FEW_ROWS || tiles == 0 || elements == 0) return of;
  of.length = std::max(parts_of(rows, std::max<std::int64_t>(1, blocks / tiles)),
                       parts_of(segment_elements, elements));
  of.count = parts_of(rows, of.length);
  of.parts = tiles * of.count;
  return of;
}

}  // namespace

SegmentsOf segments_of(const ir::Graph& graph, const sched::KernelStep& step,
                       const KernelText& text, const ir::Part& part) {
  const Results results = results_of(graph, step, part);
  const int rank = static_cast<int>(part.extent.size());
  const std::int64_t row = std::max<std::int64_t>(1, row_of(part, rank - text.row_dims));
  const std::int64_t rows = results.elements / row;
  if (rank > 0 && !ir::reduces(graph.at(step.reductions().front()), rank - 1)) {
    const std::int64_t beside = results.elements <= abi::FEW_ROWS ? default_threads : tile_results;
    const std::int64_t tiles = results.count / row * parts_of(row, beside);
    return segments_of_tiles(tiles, results.elements, std::min(row, beside));
  }
  if (text.row_dims < rank && row < abi::SHORT_ROW) {
    const std::int64_t tiles = parts_of(results.count, abi::THREADS_BESIDE);
    return segments_of_tiles(tiles, rows,
                             std::min<std::int64_t>(results.count, abi::THREADS_BESIDE) * row);
  }
  SegmentsOf of{.length = segment_elements};
  of.count = std::max<std::int64_t>(1, parts_of(results.elements, of.length));
  of.parts = results.count * of.count;
  return of;
}

std::int64_t shares_of(const ir::Part& part) {
  constexpr std::int64_t most = 512;
  return std::clamp<std::int64_t>(part.count() / segment_elements, 1, most);
}

SegmentMemory::SegmentMemory(const Platform& platform, const RankPlan& plan, BucketTables& tables,
                             const sched::KernelStep& step, const KernelText& text) {
  if (tells_buffers_in(step, plan.graph())) find_buffer_rows(platform, plan, tables, step);
  if (!step.is_reduction() || buffer_rows_.first != nullptr) return;
  const Results results = results_of(plan.graph(), step, plan.domain(step));
  const std::int64_t count =
      text.by_bucket ? buckets_of(tables, plan, step).count : results.elements;
  if (platform.traits().fixed_threads == 1 && !text.reduces_whole) {  // a block has whole results
    segments_.length = std::max<std::int64_t>(1, count);
    segments_.count = 1;
  } else if (text.by_bucket) {
    segments_.length = segment_elements / bucket_elements;
    segments_.count = std::max<std::int64_t>(1, parts_of(count, segments_.length));
  } else {
    const SegmentsOf of = segments_of(plan.graph(), step, text, plan.domain(step));
    segments_.length = of.length;
    segments_.count = of.count;
  }
  if (segments_.count == 1) return;
  memory_ =
      platform.allocate(abi::segment_words(results.count, segments_.count) * sizeof(abi::u64));
  segments_.arrived = reinterpret_cast<abi::u64*>(memory_->data());
}

void SegmentMemory::find_buffer_rows(const Platform& platform, const RankPlan& plan,
                                     BucketTables& tables, const sched::KernelStep& step) {
  const std::string& dim = plan.graph().at(step.domain).shape.front().name;
  const ir::Part& part = plan.domain(step);
  buffer_rows_.first = tables.first_buckets(dim, part.begin.front(), part.extent.front());
  buffer_rows_.buffers = std::ssize(plan.lengths(dim));
  buffer_rows_.rows = buckets_of(tables, plan, step).count;
  const int reductions = totals_of(plan.graph(), step).per_buffer;
  if (reductions == 0) return;
  memory_ = platform.allocate(reductions *
                              abi::buffer_row_words(buffer_rows_.buffers, buffer_rows_.rows) *
                              sizeof(abi::u64));
  buffer_rows_.arrived = reinterpret_cast<abi::u64*>(memory_->data());
}

abi::Buckets buckets_of(BucketTables& tables, const RankPlan& plan, const sched::KernelStep& step) {
  const ir::Part& part = plan.domain(step);
  return tables.buckets(plan.graph().at(step.domain).shape.front().name, part.begin.front(),
                        part.extent.front());
}

}  // namespace coconet::jit
