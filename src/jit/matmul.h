// Matmuls of a plan: calls of OpenBLAS on this rank's parts, one for each matrix of a batch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "jit/backend/backend.h"
#include "jit/tensors.h"
#include "jit/tile_counts.h"
#include "sched/plan.h"

namespace coconet::jit {

class Matmul {
 public:
  /// Throws BackendError for a backend that has none, without OpenBLAS, and for matrices that it cannot count.
  Matmul(const Backend& backend, const sched::Plan& plan, const sched::MatmulStep& step,
         const std::map<std::string, std::int64_t>& sizes, int rank);

  /// With `tiles`, the product is made tile by tile in their order, each told of when it is there.
  void run(const Tensors& tensors, const TileCounts* tiles = nullptr);
  [[nodiscard]] sched::BufferId out() const { return out_; }
  /// Bytes that this rank reads and writes, counting each buffer once.
  [[nodiscard]] std::uint64_t bytes(const Tensors& tensors) const;

 private:
  /// One side of the products.
  struct Operand {
    sched::BufferId buffer = -1;
    bool transposed = false;
    std::int64_t row = 0;  ///< elements from one row of the stored matrix to the next
    std::vector<std::int64_t>
        matrices;  ///< by matrix of the result: the element where the operand's begins
  };
  [[nodiscard]] Operand operand_of(const sched::Plan& plan, const sched::MatmulStep& step,
                                   std::size_t index,
                                   const std::map<std::string, std::int64_t>& sizes, int rank,
                                   const ir::Part& part);
  /// Makes one tall matrix of the left side's batch, where the right side is the same for all of it.
  void fold_batch();

  /// Rows [begin, end) of the products, which lie one below the other.
  void multiply_rows(const Tensors& tensors, std::int64_t begin, std::int64_t end);
  template <class T>
  void multiply_parts(const Tensors& tensors, std::int64_t begin, std::int64_t end) const;
  template <class T>
  void multiply_widened(const Tensors& tensors, std::int64_t begin, std::int64_t end);

  std::string name_;
  DType dtype_;
  std::int64_t rows_ = 0, columns_ = 0, terms_ = 0;  ///< M, N and K of each product
  Operand a_, b_;
  sched::BufferId out_;
  std::vector<float> wide_a_, wide_b_, wide_out_;  ///< of 16-bit floats
  std::int64_t widened_b_ = -1;                    ///< what `wide_b_` holds in this run
};

}  // namespace coconet::jit
