// Matmuls of a plan, by a library of the platform: OpenBLAS on the host, cuBLASLt on GPUs.
#pragma once

#include "jit/bind/tensors.h"
#include "jit/bind/tile_counts.h"

namespace coconet::jit {

class Matmul {
 public:
  /// Throws BackendError without the library, and for matrices that it cannot count.
  Matmul(const Platform& platform, const RankPlan& plan, const sched::MatmulStep& step);

  /// Puts it into `queue`. With `tiles`, the product is made tile by tile in their order, each told
  /// of when it is there: by the kernel `signal`, or at once where that is null.
  void enqueue(Queue& queue, const Tensors& tensors, const TileCounts* tiles, const Kernel* signal);
  [[nodiscard]] sched::BufferId out() const { return out_; }
  /// Bytes that this rank reads and writes, counting each buffer once.
  [[nodiscard]] std::uint64_t bytes(const Tensors& tensors) const;

 private:
  MatmulShape shape_;
  sched::BufferId a_, b_, bias_, out_;
  std::unique_ptr<LibraryMatmul> library_;
};

}  // namespace coconet::jit
