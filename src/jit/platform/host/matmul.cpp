// Products by OpenBLAS, which knows no 16-bit floats: they are widened.
#include "jit/platform/host/matmul.h"

#include <cblas.h>
#include <fmt/format.h>

#include <cstdlib>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

// Tiles are an eighth of a product, so that there is something to overlap, but not so few rows that
// OpenBLAS gets slow, and no more than where it is near to its full speed.
constexpr std::int64_t wanted_tiles = 8;
constexpr std::int64_t least_rows = 32;
constexpr std::int64_t most_rows = 256;

/// The binary interface that OpenBLAS's headers declare.
constexpr const char* library_name = "libopenblas.so.0";

#define COCONET_BLAS_FUNCTIONS(FUNCTION)              \
  FUNCTION(sgemm, cblas_sgemm)                        \
  FUNCTION(dgemm, cblas_dgemm)                        \
  FUNCTION(set_num_threads, openblas_set_num_threads) \
  FUNCTION(get_config, openblas_get_config)

COCONET_FUNCTION_TABLE(BlasFunctions, COCONET_BLAS_FUNCTIONS);

struct OpenBlas : BlasFunctions, LibraryFacts {};

OpenBlas load() {
  OpenBlas blas;
  blas.problem = find_functions(blas, SharedLibrary({library_name}, {""}), library_name);
  if (blas.problem.empty()) {
    blas.version = blas.get_config();
    blas.version.erase(blas.version.find_last_not_of(' ') + 1);
    if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) blas.set_num_threads(1);
  }
  return blas;
}

const OpenBlas& openblas() {
  static const OpenBlas loaded = load();
  return loaded;
}

/// A row-major matrix as it is stored, its rows `row` elements apart.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t row;
  bool transposed;
};

/// `matmul_shape` lets no count through that does not fit.
int as_int(std::int64_t count) {
  return static_cast<int>(count);
}

/// out = a b, of `rows` x `terms` and `terms` x `columns` after transposition. None may be 0.
template <class T>
void multiply(const MatmulShape& shape, std::int64_t rows, const Matrix<T>& a, const Matrix<T>& b,
              T* out) {
  const auto order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  const auto gemm = [] {
    if constexpr (std::is_same_v<T, float>) {
      return openblas().sgemm;
    } else {
      return openblas().dgemm;
    }
  }();
  gemm(CblasRowMajor, order(a.transposed), order(b.transposed), as_int(rows), as_int(shape.columns),
       as_int(shape.terms), 1, a.data, as_int(a.row), b.data, as_int(b.row), 0, out,
       as_int(shape.columns));
}

/// Copies `rows` rows of `columns` elements, `stride` apart in `from` and adjacent in `to`.
template <class T>
void widen(float* to, const T* from, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) *to++ = static_cast<float>(from[i * stride + j]);
  }
}

class HostMatmul final : public LibraryMatmul {
 public:
  explicit HostMatmul(MatmulShape shape) : shape_(std::move(shape)) {
    if (const std::string& problem = openblas().problem; !problem.empty()) {
      throw BackendError(fmt::format(
          "matmul '{}' needs OpenBLAS, which does not load: {}; install it (Debian: libopenblas0)",
          shape_.name, problem));
    }
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
  template <class T>
  void multiply_parts(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) const {
    const MatmulShape& p = shape_;
    const T* const a = reinterpret_cast<const T*>(tensors.a);
    const T* const b = reinterpret_cast<const T*>(tensors.b);
    T* const out = reinterpret_cast<T*>(tensors.out);
    p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count, auto row) {
      multiply<T>(p, count, {a + p.a.at(matrix, first), p.a.row, p.a.transposed},
                  {b + p.b.matrices[matrix], p.b.row, p.b.transposed}, out + row * p.columns);
    });
  }

  template <class T>
  void multiply_widened(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) {
    const MatmulShape& p = shape_;
    const T* const a = reinterpret_cast<const T*>(tensors.a);
    const T* const b = reinterpret_cast<const T*>(tensors.b);
    T* const out = reinterpret_cast<T*>(tensors.out);
    const auto grow = [](std::vector<float>& array, std::int64_t size) {
      array.resize(std::max<std::size_t>(array.size(), size));
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
      multiply<float>(p, count, {wide_a_.data(), stored_columns, p.a.transposed},
                      {wide_b_.data(), p.b.row, p.b.transposed}, wide_out_.data());
      std::transform(wide_out_.begin(), wide_out_.begin() + count * p.columns,
                     out + row * p.columns,
                     [](float element) { return T(static_cast<double>(element)); });
    });
  }

  void add_bias(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) const {
    const MatmulShape& p = shape_;
    const float* const bias = reinterpret_cast<const float*>(tensors.bias) + p.first_of_bias;
    float* out = reinterpret_cast<float*>(tensors.out) + begin * p.columns;
    for (std::int64_t row = begin; row < end; ++row, out += p.columns) {
      for (std::int64_t column = 0; column < p.columns; ++column) out[column] += bias[column];
    }
  }

  void multiply_rows(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) {
    if (shape_.terms == 0) {  // this rank's slice of what is contracted is empty
      const std::size_t row_bytes = shape_.columns * size_of(shape_.dtype);
      std::fill_n(tensors.out + begin * row_bytes, (end - begin) * row_bytes, std::byte{0});
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
        throw InternalError(fmt::format("matmul '{}' of {}", shape_.name, to_string(shape_.dtype)));
    }
  }

  MatmulShape shape_;
  std::vector<float> wide_a_, wide_b_, wide_out_;  ///< of 16-bit floats
  std::int64_t widened_b_ = -1;                    ///< what `wide_b_` holds in this run
};

}  // namespace

LibraryFacts blas_facts() {
  return openblas();
}

std::int64_t rows_of_host_tile(std::int64_t rows) {
  return std::clamp((rows + wanted_tiles - 1) / wanted_tiles, least_rows, most_rows);
}

std::unique_ptr<LibraryMatmul> make_host_matmul(MatmulShape shape) {
  return std::make_unique<HostMatmul>(std::move(shape));
}

}  // namespace coconet::jit
