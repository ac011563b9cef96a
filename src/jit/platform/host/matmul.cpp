// Products by OpenBLAS; 16-bit floats are widened, of which it knows none.
#include "jit/platform/host/matmul.h"

#include <algorithm>
#include <vector>

#include "coconet/error.h"
#include "jit/platform/host/blas.h"

namespace coconet::jit {

namespace {

// Tiles are an eighth of a product, so that there is something to overlap, but not so few rows that
// OpenBLAS gets slow, and no more than where it is near to its full speed.
constexpr std::int64_t wanted_tiles = 8;
constexpr std::int64_t least_rows = 32;
constexpr std::int64_t most_rows = 256;

/// `matmul_shape` lets no count through that does not fit.
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

class HostMatmul final : public LibraryMatmul {
 public:
  explicit HostMatmul(MatmulShape shape) : shape_(std::move(shape)) {
    require_blas("matmul '" + shape_.name + "'");
  }

  void begin_run() override { widened_b_ = -1; }

  void enqueue(Queue&, const MatmulTensors& tensors, std::int64_t begin,
               std::int64_t end) override {
    const std::int64_t tile = rows_of_host_tile(shape_.all_rows());
    for (std::int64_t row = begin; row < end; row += tile) {
      const std::int64_t last = std::min(row + tile, end);
      multiply_rows(tensors, row, last);
      if (shape_.has_bias) add_bias(tensors, row, last);
    }
  }

 private:
  void multiply_rows(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end);
  void add_bias(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) const;
  template <class T>
  void multiply_parts(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) const;
  template <class T>
  void multiply_widened(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end);

  MatmulShape shape_;
  std::vector<float> wide_a_, wide_b_, wide_out_;  ///< of 16-bit floats
  std::int64_t widened_b_ = -1;                    ///< what `wide_b_` holds in this run
};

template <class T>
void HostMatmul::multiply_parts(const MatmulTensors& tensors, std::int64_t begin,
                                std::int64_t end) const {
  const MatmulShape& p = shape_;
  const T* const a = reinterpret_cast<const T*>(tensors.a);
  const T* const b = reinterpret_cast<const T*>(tensors.b);
  T* const out = reinterpret_cast<T*>(tensors.out);
  const int columns = as_int(p.columns);
  p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count, auto row) {
    multiply(as_int(count), columns, as_int(p.terms),
             Matrix<const T>{a + p.a.at(matrix, first), as_int(p.a.row), p.a.transposed},
             Matrix<const T>{b + p.b.matrices[matrix], as_int(p.b.row), p.b.transposed},
             Matrix<T>{out + row * p.columns, columns});
  });
}

template <class T>
void HostMatmul::multiply_widened(const MatmulTensors& tensors, std::int64_t begin,
                                  std::int64_t end) {
  const MatmulShape& p = shape_;
  const T* const a = reinterpret_cast<const T*>(tensors.a);
  const T* const b = reinterpret_cast<const T*>(tensors.b);
  T* const out = reinterpret_cast<T*>(tensors.out);
  const auto grow = [](std::vector<float>& array, std::int64_t size) {
    array.resize(std::max(array.size(), static_cast<std::size_t>(size)));
  };
  const std::int64_t most = std::min(p.rows, end - begin);
  grow(wide_a_, most * p.terms);
  grow(wide_b_, p.terms * p.columns);
  grow(wide_out_, most * p.columns);
  p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count, auto row) {
    if (p.b.matrices[matrix] != widened_b_)
      widen(wide_b_.data(), b + p.b.matrices[matrix], 1, p.terms * p.columns, 0);
    widened_b_ = p.b.matrices[matrix];
    // These rows of the left side are columns of what is stored when it is transposed.
    const std::int64_t stored_rows = p.a.transposed ? p.terms : count;
    const std::int64_t stored_columns = p.a.transposed ? count : p.terms;
    widen(wide_a_.data(), a + p.a.at(matrix, first), stored_rows, stored_columns, p.a.row);
    multiply(as_int(count), as_int(p.columns), as_int(p.terms),
             Matrix<const float>{wide_a_.data(), as_int(stored_columns), p.a.transposed},
             Matrix<const float>{wide_b_.data(), as_int(p.b.row), p.b.transposed},
             Matrix<float>{wide_out_.data(), as_int(p.columns)});
    std::transform(wide_out_.begin(), wide_out_.begin() + count * p.columns, out + row * p.columns,
                   [](float element) { return T(static_cast<double>(element)); });
  });
}

void HostMatmul::add_bias(const MatmulTensors& tensors, std::int64_t begin,
                          std::int64_t end) const {
  const MatmulShape& p = shape_;
  const float* const bias = reinterpret_cast<const float*>(tensors.bias) + p.first_of_bias;
  float* out = reinterpret_cast<float*>(tensors.out) + begin * p.columns;
  for (std::int64_t row = begin; row < end; ++row, out += p.columns) {
    for (std::int64_t column = 0; column < p.columns; ++column) out[column] += bias[column];
  }
}

void HostMatmul::multiply_rows(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) {
  if (shape_.terms == 0) {  // this rank's slice of what is contracted is empty
    const auto row_bytes = static_cast<std::size_t>(shape_.columns) * size_of(shape_.dtype);
    std::fill_n(tensors.out + static_cast<std::size_t>(begin) * row_bytes,
                static_cast<std::size_t>(end - begin) * row_bytes, std::byte{0});
    return;
  }
  switch (shape_.dtype) {
    case DType::f64:
      return multiply_parts<double>(tensors, begin, end);
    case DType::f32:
      return multiply_parts<float>(tensors, begin, end);
    case DType::f16:
      return multiply_widened<Half>(tensors, begin, end);
    case DType::bf16:
      return multiply_widened<BFloat16>(tensors, begin, end);
    default:
      throw InternalError("matmul '" + shape_.name + "' of " +
                          std::string(to_string(shape_.dtype)));
  }
}

}  // namespace

std::int64_t rows_of_host_tile(std::int64_t rows) {
  return std::clamp((rows + wanted_tiles - 1) / wanted_tiles, least_rows, most_rows);
}

std::unique_ptr<LibraryMatmul> make_host_matmul(MatmulShape shape) {
  return std::make_unique<HostMatmul>(std::move(shape));
}

}  // namespace coconet::jit
