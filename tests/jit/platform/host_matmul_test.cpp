// Products on the host one at a time: of shapes too large for the reference, of vectors, in tiles,
// and from one run to the next.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "jit/platform/host/matmul.h"
#include "jit/platform/host/openblas.h"

using namespace coconet;
using namespace coconet::jit;

namespace {

MatmulShape shape_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t terms,
                     bool a_transposed = false, bool b_transposed = false) {
  MatmulShape shape;
  shape.name = "product";
  shape.dtype = dtype;
  shape.rows = rows;
  shape.columns = columns;
  shape.terms = terms;
  shape.a = {a_transposed, a_transposed ? rows : terms, {0}};
  shape.b = {b_transposed, b_transposed ? terms : columns, {0}};
  shape.out = {false, columns, {0}};
  return shape;
}

/// Small integers, whose products and sums of a few are exact in every dtype.
template <class T>
std::vector<T> integers(std::int64_t count, int seed) {
  std::vector<T> made;
  for (std::int64_t i = 0; i < count; ++i)
    made.push_back(T(static_cast<double>((i * 7 + i / 13 + seed) % 5 - 2)));
  return made;
}

template <class T>
std::vector<T> fractions(std::int64_t count, int seed) {
  std::vector<T> made;
  for (std::int64_t i = 0; i < count; ++i)
    made.push_back(T(std::sin(static_cast<double>(i * 31 + seed))));
  return made;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
MatmulTensors tensors_of(const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& out) {
  return {reinterpret_cast<const std::byte*>(a.data()),
          reinterpret_cast<const std::byte*>(b.data()), nullptr,
          reinterpret_cast<std::byte*>(out.data())};
}

double value(double element) {
  return element;
}
template <class T>
double value(T element) {
  return static_cast<float>(element);
}

/// A left side of one 2 in each row: the product's rows are twice rows of the right side.
template <class T>
std::vector<T> choices(std::int64_t rows, std::int64_t terms) {
  std::vector<T> a(rows * terms, T(0.0));
  for (std::int64_t i = 0; i < rows; ++i) a[i * terms + i * 17 % terms] = T(2.0);
  return a;
}

template <class T>
void require_doubled_rows(const std::vector<T>& b, const std::vector<T>& out, std::int64_t columns,
                          std::int64_t terms) {
  const std::int64_t rows = std::ssize(out) / columns;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto chosen = value(b[i * 17 % terms * columns + j]);
      wrong += value(out[i * columns + j]) != 2 * chosen;
    }
  }
  CHECK(wrong == 0);
}

/// Runs it twice, with another right side, and in tiles out of order, and by several cores, against
/// at once.
template <class T>
void require_right(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t terms) {
  INFO(to_string(dtype) << ", " << rows << " x " << terms << " x " << columns);
  const auto queue = host_platform().make_queue();
  const auto matmul = make_host_matmul(shape_of(dtype, rows, columns, terms));
  const std::vector<T> a = choices<T>(rows, terms);
  std::vector<T> b = integers<T>(terms * columns, 1);
  std::vector<T> out(rows * columns);
  matmul->begin_run();
  matmul->enqueue(*queue, tensors_of(a, b, out), 0, rows);
  require_doubled_rows(b, out, columns, terms);
  b = integers<T>(terms * columns, 3);
  matmul->begin_run();
  matmul->enqueue(*queue, tensors_of(a, b, out), 0, rows);
  require_doubled_rows(b, out, columns, terms);

  b = fractions<T>(terms * columns, 5);
  const std::vector<T> dense = fractions<T>(rows * terms, 7);
  std::vector<T> by_tile(rows * columns);
  matmul->begin_run();
  matmul->enqueue(*queue, tensors_of(dense, b, out), 0, rows);
  matmul->begin_run();
  const std::int64_t tile = rows_of_host_tile(rows, columns);
  for (std::int64_t begin = (rows - 1) / tile * tile; begin >= 0; begin -= tile)
    matmul->enqueue(*queue, tensors_of(dense, b, by_tile), begin, std::min(begin + tile, rows));
  CHECK(same_bits(out, by_tile));

  MatmulShape shape = shape_of(dtype, rows, columns, terms);
  shape.cores = 3;
  const auto by_cores = make_host_matmul(shape);
  std::vector<T> shared_out(rows * columns);
  by_cores->begin_run();
  by_cores->enqueue(*queue, tensors_of(dense, b, shared_out), 0, rows);
  CHECK(same_bits(out, shared_out));
}

/// The product of a matrix and a vector, on either side, against sums in double.
template <class T>
void require_right_vectors(DType dtype, std::int64_t size, std::int64_t terms, double tolerance) {
  const auto queue = host_platform().make_queue();
  const std::vector<T> matrix = fractions<T>(size * terms, 1);
  const std::vector<T> vector = fractions<T>(terms, 2);
  for (const bool is_right : {true, false}) {
    for (const bool transposed : {true, false}) {
      INFO(to_string(dtype) << ", " << size << " of " << terms << (is_right ? ", right" : ", left")
                            << (transposed ? ", transposed" : ""));
      const std::int64_t rows = is_right ? size : 1;
      const MatmulShape shape = shape_of(dtype, rows, is_right ? 1 : size, terms,
                                         is_right && transposed, !is_right && transposed);
      const auto matmul = make_host_matmul(shape);
      std::vector<T> out(size);
      matmul->begin_run();
      matmul->enqueue(*queue,
                      is_right ? tensors_of(matrix, vector, out) : tensors_of(vector, matrix, out),
                      0, rows);
      // [size, terms], unless one of the two says that it is the other way round.
      const bool is_down = is_right == transposed;
      double worst = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < terms; ++k)
          sum += value(matrix[is_down ? k * size + i : i * terms + k]) * value(vector[k]);
        const double size_of_sum = std::abs(sum) + std::sqrt(static_cast<double>(terms));
        worst = std::max(worst, std::abs(value(out[i]) - sum) / size_of_sum);
      }
      CHECK(worst <= tolerance);
    }
  }
}

}  // namespace

TEST_CASE("large products are right in tiles and out of order, and from one run to the next") {
  require_right<float>(DType::f32, 1024 + 5, 2048, 1024);  // whose right side is kept
  require_right<float>(DType::f32, 70, 129, 130);
  require_right<BFloat16>(DType::bf16, 333, 129, 130);
  require_right<BFloat16>(DType::bf16, 64, 96, 64);
  require_right<Half>(DType::f16, 333, 129, 130);
  require_right<double>(DType::f64, 333, 129, 130);
}

TEST_CASE("products of a matrix and a vector equal sums in double, on either side") {
  for (const std::int64_t size : {1, 3, 67, 1030}) {
    for (const std::int64_t terms : {1, 5, 16, 131, 520}) {
      require_right_vectors<float>(DType::f32, size, terms, 1e-6);
      require_right_vectors<double>(DType::f64, size, terms, 4e-15);
      require_right_vectors<BFloat16>(DType::bf16, size, terms, 4e-3);
      require_right_vectors<Half>(DType::f16, size, terms, 5e-4);
    }
  }
}

TEST_CASE("OpenBLAS's names of kernels are known for what they run on") {
  using enum InstructionSet;
  CHECK(openblas::instructions_of("Prescott") == baseline);
  CHECK(openblas::instructions_of("Nehalem") == baseline);
  CHECK(openblas::instructions_of("Sandybridge") == avx);
  CHECK(openblas::instructions_of("Zen") == avx2);
  CHECK(openblas::instructions_of("SkylakeX") == processor_instructions());
  CHECK(openblas::core_type_for(avx512) == "SkylakeX");
  CHECK(openblas::core_type_for(avx2) == "Haswell");
  CHECK(openblas::core_type_for(avx) == "Sandybridge");
  CHECK(openblas::core_type_for(baseline).empty());
}
