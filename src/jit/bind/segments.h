// How a reduction is cut into segments for blocks to share out, and the memory where their totals
// meet.
#pragma once

#include "jit/bind/bucket_table.h"
#include "jit/codegen/codegen.h"

namespace coconet::jit {

/// Elements of a segment: 256 threads load four vectors of 16 bytes of f32 each, twice. Large
/// enough that a block's own reduction does not show, small enough that 2^20 elements keep a GPU
/// busy.
inline constexpr std::int64_t segment_elements = 8192;

/// How a reduction is cut. It depends on extents alone, so that every grid gives the same bits.
struct SegmentsOf {
  std::int64_t count = 1, length = 1;
  std::int64_t parts = 1;  ///< that blocks share out: segments of results, or of tiles of results
};
/// For `part` of the domain of `step`; not for scattered tensors.
[[nodiscard]] SegmentsOf segments_of(const ir::Graph& graph, const sched::KernelStep& step,
                                     const KernelText& text, const ir::Part& part);

/// Into how many shares the totals inside a kernel are cut whose blocks are one lane each, for
/// `part` of its domain. It depends on extents alone, too.
[[nodiscard]] std::int64_t shares_of(const ir::Part& part);

class SegmentMemory {
 public:
  /// Takes memory only if `step` reduces each buffer of a list, or is a reduction whose results
  /// have several segments. Where a block is one lane, only those have that are of all elements.
  SegmentMemory(const Platform& platform, const RankPlan& plan, BucketTables& tables,
                const sched::KernelStep& step, const KernelText& text);
  [[nodiscard]] const abi::Segments& argument() const { return segments_; }
  [[nodiscard]] const abi::BufferRows& buffer_rows() const { return buffer_rows_; }

 private:
  void find_buffer_rows(const Platform& platform, const RankPlan& plan, BucketTables& tables,
                        const sched::KernelStep& step);

  abi::Segments segments_{};
  abi::BufferRows buffer_rows_{};
  std::shared_ptr<Memory> memory_;
};

/// The buckets of what `step` runs over on this rank.
[[nodiscard]] abi::Buckets buckets_of(BucketTables& tables, const RankPlan& plan,
                                      const sched::KernelStep& step);

}  // namespace coconet::jit
