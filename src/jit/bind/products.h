// The matrices of a matmul on a rank: where those of each operand begin, for whoever multiplies them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/extents.h"
#include "sched/plan.h"

namespace coconet::jit {

/// Products of `rows` x `terms` and `terms` x `columns` matrices, row-major, one below the other in `out`.
struct Products {
  /// For this rank's part of `step`.
  Products(const sched::Plan& plan, const sched::MatmulStep& step,
           const std::map<std::string, std::int64_t>& sizes, int rank);

  /// One side of the products.
  struct Operand {
    sched::BufferId buffer = -1;
    bool transposed = false;
    std::int64_t row = 0;  ///< elements from one row of the stored matrix to the next
    std::vector<std::int64_t>
        matrices;  ///< by matrix of the result: the element where the operand's begins
    /// Elements from the beginning of `matrix` to what row `row` of the product needs of it; of the left side.
    [[nodiscard]] std::int64_t at(std::size_t matrix, std::int64_t first_row) const {
      return matrices[matrix] + first_row * (transposed ? 1 : row);
    }
  };

  std::string name;
  DType dtype;
  std::int64_t rows = 0, columns = 0, terms = 0;
  Operand a, b;
  sched::BufferId bias = -1;       ///< of `columns` elements, added to each row; -1: there is none
  std::int64_t first_of_bias = 0;  ///< its element that is added to the first column
  sched::BufferId out;

  /// Rows of all products together.
  [[nodiscard]] std::int64_t all_rows() const {
    return rows * static_cast<std::int64_t>(a.matrices.size());
  }
  /// This rank has no element of the result.
  [[nodiscard]] bool is_empty() const { return all_rows() == 0 || columns == 0; }
  /// Calls multiply(matrix, first, count, row) for the parts of rows [begin, end) of all: `count` rows from `first` on of
  /// a matrix, which are row `row` and those below of all.
  template <class Multiply>
  void for_each_matrix(std::int64_t begin, std::int64_t end, const Multiply& multiply) const {
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t first = row % rows;
      const std::int64_t count = std::min(rows - first, end - row);
      multiply(static_cast<std::size_t>(row / rows), first, count, row);
      row += count;
    }
  }

 private:
  [[nodiscard]] Operand operand_of(const sched::Plan& plan, const sched::MatmulStep& step,
                                   std::size_t index,
                                   const std::map<std::string, std::int64_t>& sizes, int rank,
                                   const ir::Part& part);
  /// Makes one tall matrix of the left side's batch, where the right side is the same for all of it.
  void fold_batch();
};

}  // namespace coconet::jit
