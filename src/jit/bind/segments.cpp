// Sizes of segments. They depend on the tensors alone, so that every grid gives the same bits.
#include "jit/bind/segments.h"

#include <algorithm>

namespace coconet::jit {

SegmentMemory::SegmentMemory(const Platform& platform, const RankPlan& plan, BucketTables& tables,
                             const sched::KernelStep& step, const KernelText& text) {
  if (!step.is_reduction()) return;
  const Results results = results_of(plan.graph(), step, plan.domain(step));
  const std::int64_t count =
      text.by_bucket ? buckets_of(tables, plan, step).count : results.elements;
  const bool one_by_one = platform.traits().fixed_threads == 1;
  segments_.length = one_by_one       ? std::max<std::int64_t>(1, count)
                     : text.by_bucket ? segment_elements / bucket_elements
                                      : segment_elements;
  segments_.count = std::max<std::int64_t>(1, (count + segments_.length - 1) / segments_.length);
  if (segments_.count == 1) return;
  memory_ =
      platform.allocate(abi::segment_words(results.count, segments_.count) * sizeof(abi::u64));
  segments_.arrived = reinterpret_cast<abi::u64*>(memory_->data());
}

abi::Buckets buckets_of(BucketTables& tables, const RankPlan& plan, const sched::KernelStep& step) {
  const ir::Part& part = plan.domain(step);
  return tables.buckets(plan.graph().at(step.domain).shape.front().name, part.begin.front(),
                        part.extent.front());
}

}  // namespace coconet::jit
