// Running a matmul.
#include "jit/run/matmul.h"

#include <algorithm>

#include "coconet/error.h"
#include "jit/bind/matmul_shape.h"
#include "jit/exchange/tiles.h"
#include "jit/platform/host/blas.h"

namespace coconet::jit {

namespace {

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

}  // namespace

Matmul::Matmul(const Platform& platform, const RankPlan& plan, const sched::MatmulStep& step)
    : shape_(matmul_shape(plan, step)), a_(step.a), b_(step.b), bias_(step.bias), out_(step.out) {
  if (platform.device() != nullptr) {
    on_gpu_ = make_gpu_matmul(platform, shape_);
  } else {
    require_blas("matmul '" + shape_.name + "'");
  }
}

MatmulTensors Matmul::pointers(const Tensors& tensors) const {
  return {tensors[a_].data, tensors[b_].data, bias_ < 0 ? nullptr : tensors[bias_].data,
          tensors[out_].data};
}

template <class T>
void Matmul::multiply_parts(const Tensors& tensors, std::int64_t begin, std::int64_t end) const {
  const MatmulShape& p = shape_;
  const T* const a = reinterpret_cast<const T*>(tensors[a_].data);
  const T* const b = reinterpret_cast<const T*>(tensors[b_].data);
  T* const out = reinterpret_cast<T*>(tensors[out_].data);
  const int columns = as_int(p.columns);
  p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count, auto row) {
    multiply(as_int(count), columns, as_int(p.terms),
             Matrix<const T>{a + p.a.at(matrix, first), as_int(p.a.row), p.a.transposed},
             Matrix<const T>{b + p.b.matrices[matrix], as_int(p.b.row), p.b.transposed},
             Matrix<T>{out + row * p.columns, columns});
  });
}

template <class T>
void Matmul::multiply_widened(const Tensors& tensors, std::int64_t begin, std::int64_t end) {
  const MatmulShape& p = shape_;
  const T* const a = reinterpret_cast<const T*>(tensors[a_].data);
  const T* const b = reinterpret_cast<const T*>(tensors[b_].data);
  T* const out = reinterpret_cast<T*>(tensors[out_].data);
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

void Matmul::add_bias(const Tensors& tensors, std::int64_t begin, std::int64_t end) const {
  const MatmulShape& p = shape_;
  if (!p.has_bias) return;
  const float* const bias = reinterpret_cast<const float*>(tensors[bias_].data) + p.first_of_bias;
  float* out = reinterpret_cast<float*>(tensors[out_].data) + begin * p.columns;
  for (std::int64_t row = begin; row < end; ++row, out += p.columns) {
    for (std::int64_t column = 0; column < p.columns; ++column) out[column] += bias[column];
  }
}

void Matmul::multiply_rows(const Tensors& tensors, std::int64_t begin, std::int64_t end) {
  if (shape_.terms == 0) {  // this rank's slice of what is contracted is empty
    const auto row_bytes = static_cast<std::size_t>(shape_.columns) * size_of(shape_.dtype);
    std::fill_n(tensors[out_].data + static_cast<std::size_t>(begin) * row_bytes,
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

void Matmul::make_rows(const Tensors& tensors, std::int64_t begin, std::int64_t end) {
  multiply_rows(tensors, begin, end);
  add_bias(tensors, begin, end);
}

void Matmul::run(const Tensors& tensors, const TileCounts* tiles) {
  if (shape_.is_empty()) return;
  widened_b_ = -1;
  const std::int64_t rows = shape_.all_rows();
  if (tiles == nullptr) {
    const std::int64_t tile = rows_of_host_tile(rows);
    for (std::int64_t row = 0; row < rows; row += tile)
      make_rows(tensors, row, std::min(row + tile, rows));
    return;
  }
  for (const std::int64_t tile : tiles->order()) {
    make_rows(tensors, tiles->begin(tile) / shape_.columns,
              tiles->begin(tile + 1) / shape_.columns);
    tiles->signal(tile);
  }
}

void Matmul::enqueue(Queue& queue, const Tensors& tensors, const TileCounts* tiles,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& made) {
  if (shape_.is_empty()) return;
  if (tiles == nullptr) {
    on_gpu_->enqueue(queue, pointers(tensors), 0, shape_.all_rows());
    return;
  }
  for (const std::int64_t tile : tiles->order()) {
    const std::int64_t begin = tiles->begin(tile);
    const std::int64_t end = tiles->begin(tile + 1);
    on_gpu_->enqueue(queue, pointers(tensors), begin / shape_.columns, end / shape_.columns);
    made(begin, end);
  }
}

std::uint64_t Matmul::bytes(const Tensors& tensors) const {
  const std::uint64_t of_bias = bias_ < 0 ? 0 : shape_.columns;
  return (tensors[a_].count + tensors[b_].count + of_bias + tensors[out_].count) *
         size_of(shape_.dtype);
}

}  // namespace coconet::jit
