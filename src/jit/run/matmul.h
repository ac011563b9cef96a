// Matmuls of a plan, by a library of the platform: OpenBLAS on the host, cuBLASLt on GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "jit/bind/rank_plan.h"
#include "jit/bind/tensors.h"
#include "jit/bind/tile_counts.h"
#include "jit/platform/platform.h"
#include "jit/run/gpu_matmul.h"
#include "sched/plan.h"

namespace coconet::jit {

class Matmul {
 public:
  /// Throws BackendError where the platform's library is not there, and for matrices that it cannot count.
  Matmul(const Platform& platform, const RankPlan& plan, const sched::MatmulStep& step);

  /// On the host. With `tiles`, the product is made tile by tile in their order, each told of when it is there.
  void run(const Tensors& tensors, const TileCounts* tiles = nullptr);
  /// On a GPU. With `tiles`, the product is made tile by tile in their order, and `made(begin, end)` called behind each
  /// with its elements; else as a whole.
  void enqueue(Queue& queue, const Tensors& tensors, const TileCounts* tiles,
               const std::function<void(std::int64_t begin, std::int64_t end)>& made);
  [[nodiscard]] sched::BufferId out() const { return out_; }
  /// Bytes that this rank reads and writes, counting each buffer once.
  [[nodiscard]] std::uint64_t bytes(const Tensors& tensors) const;

 private:
  /// Rows [begin, end) of the result, which has the products one below the other.
  void make_rows(const Tensors& tensors, std::int64_t begin, std::int64_t end);
  void add_bias(const Tensors& tensors, std::int64_t begin, std::int64_t end) const;
  void multiply_rows(const Tensors& tensors, std::int64_t begin, std::int64_t end);
  template <class T>
  void multiply_parts(const Tensors& tensors, std::int64_t begin, std::int64_t end) const;
  template <class T>
  void multiply_widened(const Tensors& tensors, std::int64_t begin, std::int64_t end);

  /// Where its tensors are in `tensors`.
  [[nodiscard]] MatmulTensors pointers(const Tensors& tensors) const;

  MatmulShape shape_;
  sched::BufferId a_, b_, bias_, out_;
  std::unique_ptr<GpuMatmul> on_gpu_;              ///< null on the host
  std::vector<float> wide_a_, wide_b_, wide_out_;  ///< of 16-bit floats
  std::int64_t widened_b_ = -1;                    ///< what `wide_b_` holds in this run
};

}  // namespace coconet::jit
