// The matrices that a matmul multiplies on a rank, as the platforms' libraries are told of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coconet/dtype.h"

namespace coconet::jit {

/// Products of `rows` x `terms` and `terms` x `columns` matrices. Their rows are counted through
/// all of them, from the first matrix on.
struct MatmulShape {
  /// One side of the products, or the result, which is not transposed.
  struct Operand {
    bool transposed = false;
    std::int64_t row = 0;  ///< elements from one row of the stored matrix to the next
    /// By matrix of the result: the element where the operand's begins.
    std::vector<std::int64_t> matrices;
    /// The element from which row `first_row` of the product needs the left side's `matrix`, or
    /// where it begins in the result.
    [[nodiscard]] std::int64_t at(std::size_t matrix, std::int64_t first_row) const {
      return matrices[matrix] + first_row * (transposed ? 1 : row);
    }
  };

  std::string name;
  DType dtype;
  std::int64_t rows = 0, columns = 0, terms = 0;
  Operand a, b, out;
  bool has_bias = false;           ///< `columns` elements are added to each row
  std::int64_t first_of_bias = 0;  ///< its element that is added to the first column
  int cores = 1;                   ///< of the host, which share out the rows

  /// Rows of all products together.
  [[nodiscard]] std::int64_t all_rows() const {
    return rows * static_cast<std::int64_t>(a.matrices.size());
  }
  /// This rank has no element of the result.
  [[nodiscard]] bool is_empty() const { return all_rows() == 0 || columns == 0; }
  /// Calls multiply(matrix, first, count) for the parts of rows [begin, end) of all: `count` rows
  /// from `first` on of a matrix.
  template <class Multiply>
  void for_each_matrix(std::int64_t begin, std::int64_t end, const Multiply& multiply) const {
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t first = row % rows;
      const std::int64_t count = std::min(rows - first, end - row);
      multiply(static_cast<std::size_t>(row / rows), first, count);
      row += count;
    }
  }
};

/// Where the tensors of a matmul begin; `bias` is null where there is none.
struct MatmulTensors {
  const std::byte* a;
  const std::byte* b;
  const std::byte* bias;
  std::byte* out;
};

}  // namespace coconet::jit
