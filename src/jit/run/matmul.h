// Matmuls of a plan, by a library of the platform: oneDNN or OpenBLAS on the host, cuBLASLt
// on GPUs.
#pragma once

#include "jit/bind/tensors.h"
#include "jit/bind/tile_counts.h"

namespace coconet::jit {

class Matmul {
 public:
  /// On the host, `cores` share it out. Throws BackendError without the library, and for matrices
  /// that it cannot count.
  Matmul(const Platform& platform, const RankPlan& plan, const sched::MatmulStep& step, int cores);

  /// A rank that is driven from here.
  struct Member {
    Matmul* matmul;
    const Tensors* tensors;
    const TileCounts* tiles;  ///< in which the product is made, in their order; null: at once
  };
  /// What tells of tiles: a kernel, or the host where there is none. It is launched beside the
  /// products, so that none of these waits for it, if there is a queue for that.
  struct Signals {
    const Kernel* kernel = nullptr;
    Queue* beside = nullptr;
    Event* made = nullptr;
  };
  /// Puts the products of all members into `queue`: the first tile of each, then the second, as the
  /// kernel that takes them runs for all members.
  static void run(Queue& queue, std::span<const Member> members, const Signals& signals);
  [[nodiscard]] sched::BufferId out() const { return out_; }
  /// Bytes that this rank reads and writes, counting each buffer once.
  [[nodiscard]] std::uint64_t bytes(const Tensors& tensors) const;
  [[nodiscard]] DType dtype() const { return shape_.dtype; }
  /// Multiplications and additions of one run.
  [[nodiscard]] double operations() const;

 private:
  void enqueue(Queue& queue, const Tensors& tensors, std::int64_t begin, std::int64_t end);

  MatmulShape shape_;
  sched::BufferId a_, b_, bias_, out_;
  std::unique_ptr<LibraryMatmul> library_;
};

}  // namespace coconet::jit
