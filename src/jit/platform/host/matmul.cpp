// Chooses what multiplies a shape, and cuts products into tiles.
#include "jit/platform/host/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "coconet/error.h"
#include "jit/comm/worlds/core_pool.h"
#include "jit/platform/host/loops.h"
#include "jit/platform/host/onednn.h"
#include "jit/platform/host/openblas.h"

namespace coconet::jit {

namespace {

// Tiles are an eighth of a product, so that there is something to overlap, but not so few rows that
// rearranging the right side for each gets noticed, and no more than where that no longer matters.
constexpr std::int64_t wanted_tiles = 8;
constexpr std::int64_t least_rows = 128;
constexpr std::int64_t most_rows = 256;
// What a vector's elements take is hardly more than a call, and nobody gains by waiting for some.
constexpr std::int64_t least_rows_of_vector = 4096;

// oneDNN's sgemm rearranges the right side again for every tile. From these sizes on a product that
// keeps it is quicker, by up to a tenth.
constexpr std::int64_t rows_to_keep = 1024;
constexpr std::int64_t columns_to_keep = 1024;
constexpr std::int64_t elements_to_keep = std::int64_t{1} << 21;

/// What multiplies a shape.
enum class Way {
  loops,    ///< a matrix and a vector
  product,  ///< oneDNN's, of this shape
  onednn,   ///< as f32
  openblas  ///< as f32, or f64
};

bool has_onednn() {
  return onednn::facts().problem.empty();
}

/// Whether the right side, or the left one, is a vector whose elements lie one after the other, and
/// so do those of the result.
bool right_is_vector(const MatmulShape& shape) {
  return shape.columns == 1 && (shape.b.transposed || shape.b.row == 1) && shape.out.row == 1;
}
bool left_is_vector(const MatmulShape& shape) {
  return shape.rows == 1 && (!shape.a.transposed || shape.a.row == 1);
}

Way way_of(const MatmulShape& shape) {
  if (left_is_vector(shape) || right_is_vector(shape)) return Way::loops;
  if (shape.dtype == DType::f64 || !has_onednn()) return Way::openblas;
  const bool is_large = shape.rows >= rows_to_keep && shape.columns >= columns_to_keep &&
                        shape.columns * shape.terms >= elements_to_keep;
  if ((is_16_bit(shape.dtype) || is_large) && shape.terms > 0 && onednn::multiplies(shape.dtype))
    return Way::product;
  return Way::onednn;
}

void require_library(const MatmulShape& shape, Way way) {
  if (way != Way::openblas || openblas::facts().problem.empty()) return;
  const std::string& problem = openblas::facts().problem;
  if (shape.dtype == DType::f64) {
    throw BackendError(
        fmt::format("matmul '{}' of f64 needs OpenBLAS, which does not load: {}; install it "
                    "(Debian: libopenblas0)",
                    shape.name, problem));
  }
  throw BackendError(
      fmt::format("matmul '{}' needs oneDNN or OpenBLAS, and neither loads: {}; {}; install one "
                  "(Debian: libdnnl2 or libopenblas0)",
                  shape.name, onednn::facts().problem, problem));
}

/// Multiplies rows in one thread at a time.
class Multiplier {
 public:
  Multiplier(const MatmulShape& shape, Way way, bool rearranges) : shape_(shape), way_(way) {
    if (way_ == Way::product) product_ = onednn::make_product(shape_, rearranges);
  }

  void begin_run() {
    widened_b_ = -1;
    if (product_ != nullptr) product_->begin_run();
  }

  /// Rows [begin, end) of all.
  void multiply_rows(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) {
    if (shape_.terms == 0) {  // this rank's slice of what is contracted is empty
      const std::size_t size = size_of(shape_.dtype);
      shape_.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count) {
        for (std::int64_t row = first; row < first + count; ++row)
          std::fill_n(tensors.out + shape_.out.at(matrix, row) * size, shape_.columns * size,
                      std::byte{0});
      });
      return;
    }
    switch (shape_.dtype) {
      case DType::f64:
        return multiply_parts<double>(tensors, begin, end);
      case DType::f32:
        return multiply_parts<float>(tensors, begin, end);
      case DType::f16:
        return way_ == Way::product ? multiply_parts<Half>(tensors, begin, end)
                                    : multiply_widened<Half>(tensors, begin, end);
      case DType::bf16:
        return way_ == Way::product || way_ == Way::loops
                   ? multiply_parts<BFloat16>(tensors, begin, end)
                   : multiply_widened<BFloat16>(tensors, begin, end);
      default:
        throw InternalError(fmt::format("matmul '{}' of {}", shape_.name, to_string(shape_.dtype)));
    }
  }

 private:
  template <class T>
  void multiply_parts(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) {
    const MatmulShape& p = shape_;
    const T* const a = reinterpret_cast<const T*>(tensors.a);
    const T* const b = reinterpret_cast<const T*>(tensors.b);
    T* const out = reinterpret_cast<T*>(tensors.out);
    p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count) {
      multiply<T>(count, {a + p.a.at(matrix, first), p.a.row, p.a.transposed},
                  {b + p.b.matrices[matrix], p.b.row, p.b.transposed},
                  out + p.out.at(matrix, first), p.out.row);
    });
  }

  /// Multiplies `rows` rows of the left side into rows of the result that are `out_row` elements
  /// apart.
  template <class T>
  void multiply(std::int64_t rows, const Matrix<T>& a, const Matrix<T>& b, T* out,
                std::int64_t out_row) {
    const MatmulShape& p = shape_;
    if (way_ == Way::product) {
      product_->multiply(rows, reinterpret_cast<const std::byte*>(a.data),
                         reinterpret_cast<const std::byte*>(b.data),
                         reinterpret_cast<std::byte*>(out));
      return;
    }
    if constexpr (!std::is_same_v<T, Half>) {
      if (way_ == Way::loops) return multiply_vector<T>(rows, a, b, out);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (way_ == Way::onednn)
        return onednn::multiply(rows, p.columns, p.terms, a, b, out, out_row);
    }
    if constexpr (std::is_floating_point_v<T>)
      openblas::multiply(rows, p.columns, p.terms, a, b, out, out_row);
  }

  /// The side that is a vector, and the result, have their elements one after the other.
  template <class T>
  void multiply_vector(std::int64_t rows, const Matrix<T>& a, const Matrix<T>& b, T* out) {
    const MatmulShape& p = shape_;
    const bool is_right = right_is_vector(p);
    const T* const vector = is_right ? b.data : a.data;
    const Matrix<T>& matrix = is_right ? a : b;
    const std::int64_t count = is_right ? rows : p.columns;
    const bool is_down = is_right ? a.transposed : !b.transposed;  // what is contracted
    if (is_down) {
      loops::multiply_columns(matrix.data, matrix.row, vector, count, p.terms, out);
    } else {
      loops::multiply_rows(matrix.data, matrix.row, vector, count, p.terms, out);
    }
  }

  /// The `height` x `width` matrix `from` as it is stored, in f32 and packed at `to`.
  template <class T>
  static Matrix<float> widened(const Matrix<T>& from, std::int64_t height, std::int64_t width,
                               std::vector<float>& to) {
    if (from.transposed) std::swap(height, width);
    grow(to, height * width);
    for (std::int64_t row = 0; row < height; ++row)
      loops::widen(from.data + row * from.row, width, to.data() + row * width);
    return {to.data(), width, from.transposed};
  }

  template <class T>
  void multiply_widened(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) {
    const MatmulShape& p = shape_;
    const T* const a = reinterpret_cast<const T*>(tensors.a);
    const T* const b = reinterpret_cast<const T*>(tensors.b);
    T* const out = reinterpret_cast<T*>(tensors.out);
    grow(wide_out_, std::min(p.rows, end - begin) * p.columns);
    p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count) {
      if (p.b.matrices[matrix] != widened_b_) {
        right_ = widened(Matrix<T>{b + p.b.matrices[matrix], p.b.row, p.b.transposed}, p.terms,
                         p.columns, wide_b_);
      }
      widened_b_ = p.b.matrices[matrix];
      const Matrix<float> left = widened(
          Matrix<T>{a + p.a.at(matrix, first), p.a.row, p.a.transposed}, count, p.terms, wide_a_);
      multiply<float>(count, left, right_, wide_out_.data(), p.columns);
      for (std::int64_t row = 0; row < count; ++row)
        loops::narrow(wide_out_.data() + row * p.columns, p.columns,
                      out + p.out.at(matrix, first + row));
    });
  }

  static void grow(std::vector<float>& array, std::int64_t size) {
    array.resize(std::max<std::size_t>(array.size(), size));
  }

  const MatmulShape& shape_;
  Way way_;
  std::unique_ptr<onednn::Product> product_;
  std::vector<float> wide_a_, wide_b_, wide_out_;  ///< of 16-bit floats
  std::int64_t widened_b_ = -1;                    ///< what `wide_b_` holds in this run
  Matrix<float> right_ = {};                       ///< which is this
};

/// Products in tiles of rows, which the cores of a rank share out: a library adds in one thread, so
/// that the number of cores does not show in the bits.
class HostMatmul final : public LibraryMatmul {
 public:
  explicit HostMatmul(MatmulShape shape) : shape_(std::move(shape)) {
    const Way way = way_of(shape_);
    require_library(shape_, way);
    const std::int64_t tiles = (shape_.all_rows() + rows_of_tile() - 1) / rows_of_tile();
    // oneDNN would rearrange the right side for every tile.
    const bool rearranges = shape_.rows > rows_of_tile();
    do {
      multipliers_.push_back(std::make_unique<Multiplier>(shape_, way, rearranges));
    } while (std::ssize(multipliers_) < std::min<std::int64_t>(shape_.cores, tiles));
  }

  void begin_run() override {
    for (const auto& multiplier : multipliers_) multiplier->begin_run();
  }

  void enqueue(Queue&, const MatmulTensors& tensors, std::int64_t begin,
               std::int64_t end) override {
    const std::int64_t tile = rows_of_tile();
    std::atomic<std::int64_t> next = begin;
    const auto multiply_tiles = [&](Multiplier& multiplier) {
      for (std::int64_t row = next.fetch_add(tile); row < end; row = next.fetch_add(tile)) {
        const std::int64_t last = std::min(row + tile, end);
        multiplier.multiply_rows(tensors, row, last);
        if (shape_.has_bias) add_bias(tensors, row, last);
      }
    };
    if (multipliers_.size() == 1 || end - begin <= tile) return multiply_tiles(*multipliers_[0]);
    std::vector<std::exception_ptr> failures(multipliers_.size());
    CorePool::of_this_thread().run(static_cast<int>(multipliers_.size()), [&](int core) {
      try {
        multiply_tiles(*multipliers_[core]);
      } catch (...) {
        failures[core] = std::current_exception();
      }
    });
    for (const std::exception_ptr& failure : failures) {
      if (failure != nullptr) std::rethrow_exception(failure);
    }
  }

 private:
  [[nodiscard]] std::int64_t rows_of_tile() const {
    return rows_of_host_tile(shape_.all_rows(), shape_.columns);
  }

  void add_bias(const MatmulTensors& tensors, std::int64_t begin, std::int64_t end) const {
    const MatmulShape& p = shape_;
    const float* const bias = reinterpret_cast<const float*>(tensors.bias) + p.first_of_bias;
    float* const out = reinterpret_cast<float*>(tensors.out);
    p.for_each_matrix(begin, end, [&](std::size_t matrix, auto first, auto count) {
      for (std::int64_t row = first; row < first + count; ++row)
        loops::add(bias, p.columns, out + p.out.at(matrix, row));
    });
  }

  MatmulShape shape_;
  std::vector<std::unique_ptr<Multiplier>> multipliers_;  ///< one for each core
};

}  // namespace

std::int64_t rows_of_host_tile(std::int64_t rows, std::int64_t columns) {
  const std::int64_t least = columns == 1 ? least_rows_of_vector : least_rows;
  const std::int64_t wanted = (rows + wanted_tiles - 1) / wanted_tiles;
  return std::clamp(wanted, least, std::max(least, most_rows));
}

std::unique_ptr<LibraryMatmul> make_host_matmul(MatmulShape shape) {
  return std::make_unique<HostMatmul>(std::move(shape));
}

}  // namespace coconet::jit
