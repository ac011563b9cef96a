// Running a matmul.
#include "jit/matmul.h"

#include <algorithm>
#include <limits>

#include "coconet/error.h"
#include "ir/extents.h"
#include "ir/matmul.h"
#include "jit/blas.h"

namespace coconet::jit {

namespace {

constexpr std::int64_t largest_int = std::numeric_limits<int>::max();

/// Every count here has been compared with `largest_int`.
int as_int(std::int64_t count) {
  return static_cast<int>(count);
}

/// Copies `rows` rows of `columns` elements, whose rows are `stride` apart, one behind the other.
template <class T>
void widen(float* to, const T* from, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) *to++ = static_cast<float>(from[i * stride + j]);
  }
}

}  // namespace

Matmul::Matmul(const Backend& backend, const sched::Plan& plan, const sched::MatmulStep& step,
               const std::map<std::string, std::int64_t>& sizes, int rank)
    : name_(step.name), dtype_(plan.graph.at(step.value).dtype), out_(step.out) {
  if (backend.device() != nullptr) {
    throw BackendError("matmul '" + name_ +
                       "' cannot run: matmul on GPUs needs cuBLASLt, which is not built yet; use "
                       "COCONET_BACKEND=host");
  }
  require_blas("matmul '" + name_ + "'");
  const ir::Node& node = plan.graph.at(step.value);
  const ir::Part part =
      ir::part_of(plan.graph.mesh, node.layout, ir::global_extents(node.shape, sizes), rank);
  rows_ = part.extent[part.extent.size() - 2];
  columns_ = part.extent.back();
  a_ = operand_of(plan, step, 0, sizes, rank, part);
  b_ = operand_of(plan, step, 1, sizes, rank, part);
  fold_batch();
  if (std::max({rows_, columns_, terms_}) > largest_int) {
    throw BackendError("matmul '" + name_ + "' multiplies matrices of " + std::to_string(rows_) +
                       " x " + std::to_string(terms_) + " and " + std::to_string(terms_) + " x " +
                       std::to_string(columns_) + "; OpenBLAS counts to " +
                       std::to_string(largest_int));
  }
}

Matmul::Operand Matmul::operand_of(const sched::Plan& plan, const sched::MatmulStep& step,
                                   std::size_t index,
                                   const std::map<std::string, std::int64_t>& sizes, int rank,
                                   const ir::Part& part) {
  const ir::Node& node = plan.graph.at(step.value);
  const ir::Node& from = plan.graph.at(node.operands[index]);
  const ir::MatmulDims dims = ir::matmul_dims(plan.graph, node, index);
  const ir::Extents global = ir::global_extents(from.shape, sizes);
  const ir::Part own = ir::part_of(plan.graph.mesh, from.layout, global, rank);
  terms_ = own.extent[static_cast<std::size_t>(dims.contracted)];

  Operand operand;
  operand.buffer = index == 0 ? step.a : step.b;
  operand.transposed = index == 0 ? node.attributes.transpose_a : node.attributes.transpose_b;
  operand.row = own.extent.back();
  operand.matrices = {0};
  const std::size_t batch_rank = part.extent.size() - 2;
  const std::size_t shift = part.extent.size() - own.extent.size();
  // From the outermost batch dimension in: every matrix so far becomes one for each index of the next dimension.
  for (std::size_t d = 0; d < batch_rank; ++d) {
    std::int64_t first = 0;
    std::int64_t stride = 0;
    if (d >= shift && global[d - shift] != 1) {
      stride = 1;
      for (std::size_t inner = d - shift + 1; inner < own.extent.size(); ++inner)
        stride *= own.extent[inner];
      first = part.begin[d] - own.begin[d - shift];
    }
    std::vector<std::int64_t> next;
    next.reserve(operand.matrices.size() * static_cast<std::size_t>(part.extent[d]));
    for (const std::int64_t matrix : operand.matrices) {
      for (std::int64_t i = 0; i < part.extent[d]; ++i)
        next.push_back(matrix + (first + i) * stride);
    }
    operand.matrices = std::move(next);
  }
  return operand;
}

void Matmul::fold_batch() {
  const auto count = static_cast<std::int64_t>(a_.matrices.size());
  if (count < 2 || a_.transposed || count * rows_ > largest_int) return;
  for (std::size_t i = 1; i < a_.matrices.size(); ++i) {
    if (a_.matrices[i] != a_.matrices[i - 1] + rows_ * terms_ || b_.matrices[i] != b_.matrices[0])
      return;
  }
  rows_ *= count;
  a_.matrices.resize(1);
  b_.matrices.resize(1);
}

template <class T>
void Matmul::multiply_parts(const Tensors& tensors, std::int64_t begin, std::int64_t end) const {
  const T* const a = reinterpret_cast<const T*>(tensors[a_.buffer].data);
  const T* const b = reinterpret_cast<const T*>(tensors[b_.buffer].data);
  T* const out = reinterpret_cast<T*>(tensors[out_].data);
  const int columns = as_int(columns_);
  for (std::int64_t row = begin; row < end;) {
    const auto i = static_cast<std::size_t>(row / rows_);
    const std::int64_t first = row % rows_;
    const std::int64_t rows = std::min(rows_ - first, end - row);
    multiply(as_int(rows), columns, as_int(terms_),
             Matrix<const T>{a + a_.matrices[i] + first * (a_.transposed ? 1 : a_.row),
                             as_int(a_.row), a_.transposed},
             Matrix<const T>{b + b_.matrices[i], as_int(b_.row), b_.transposed},
             Matrix<T>{out + row * columns_, columns});
    row += rows;
  }
}

template <class T>
void Matmul::multiply_widened(const Tensors& tensors, std::int64_t begin, std::int64_t end) {
  const T* const a = reinterpret_cast<const T*>(tensors[a_.buffer].data);
  const T* const b = reinterpret_cast<const T*>(tensors[b_.buffer].data);
  T* const out = reinterpret_cast<T*>(tensors[out_].data);
  const std::int64_t most = std::min(rows_, end - begin);
  wide_a_.resize(std::max(wide_a_.size(), static_cast<std::size_t>(most * terms_)));
  wide_b_.resize(static_cast<std::size_t>(terms_ * columns_));
  wide_out_.resize(std::max(wide_out_.size(), static_cast<std::size_t>(most * columns_)));
  for (std::int64_t row = begin; row < end;) {
    const auto i = static_cast<std::size_t>(row / rows_);
    const std::int64_t first = row % rows_;
    const std::int64_t rows = std::min(rows_ - first, end - row);
    if (b_.matrices[i] != widened_b_)
      widen(wide_b_.data(), b + b_.matrices[i], 1, terms_ * columns_, 0);
    widened_b_ = b_.matrices[i];
    // These rows of the left side are columns of what is stored when it is transposed.
    const std::int64_t stored_rows = a_.transposed ? terms_ : rows;
    const std::int64_t stored_columns = a_.transposed ? rows : terms_;
    widen(wide_a_.data(), a + a_.matrices[i] + first * (a_.transposed ? 1 : a_.row), stored_rows,
          stored_columns, a_.row);
    multiply(as_int(rows), as_int(columns_), as_int(terms_),
             Matrix<const float>{wide_a_.data(), as_int(stored_columns), a_.transposed},
             Matrix<const float>{wide_b_.data(), as_int(b_.row), b_.transposed},
             Matrix<float>{wide_out_.data(), as_int(columns_)});
    std::transform(wide_out_.begin(), wide_out_.begin() + rows * columns_, out + row * columns_,
                   [](float element) { return T(static_cast<double>(element)); });
    row += rows;
  }
}

void Matmul::multiply_rows(const Tensors& tensors, std::int64_t begin, std::int64_t end) {
  if (terms_ == 0) {  // this rank's slice of what is contracted is empty
    const auto row_bytes = static_cast<std::size_t>(columns_) * size_of(dtype_);
    std::fill_n(tensors[out_].data + static_cast<std::size_t>(begin) * row_bytes,
                static_cast<std::size_t>(end - begin) * row_bytes, std::byte{0});
    return;
  }
  switch (dtype_) {
    case DType::f64:
      return multiply_parts<double>(tensors, begin, end);
    case DType::f32:
      return multiply_parts<float>(tensors, begin, end);
    case DType::f16:
      return multiply_widened<Half>(tensors, begin, end);
    case DType::bf16:
      return multiply_widened<BFloat16>(tensors, begin, end);
    default:
      throw InternalError("matmul '" + name_ + "' of " + std::string(to_string(dtype_)));
  }
}

void Matmul::run(const Tensors& tensors, const TileCounts* tiles) {
  if (rows_ == 0 || columns_ == 0) return;
  widened_b_ = -1;
  const auto rows = rows_ * static_cast<std::int64_t>(a_.matrices.size());
  if (tiles == nullptr) {
    const std::int64_t tile = rows_of_tile(rows);
    for (std::int64_t row = 0; row < rows; row += tile)
      multiply_rows(tensors, row, std::min(row + tile, rows));
    return;
  }
  for (const std::int64_t tile : tiles->order()) {
    multiply_rows(tensors, tiles->begin(tile) / columns_, tiles->begin(tile + 1) / columns_);
    tiles->tell(tile);
  }
}

std::uint64_t Matmul::bytes(const Tensors& tensors) const {
  return (tensors[a_.buffer].count + tensors[b_.buffer].count + tensors[out_].count) *
         size_of(dtype_);
}

}  // namespace coconet::jit
