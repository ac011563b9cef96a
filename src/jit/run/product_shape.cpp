// Which dimensions of a product are the rows, columns and terms of its matrices, and where each
// matrix begins. Dimensions become rows together where both tensors that have them hold them as
// one, and so do columns and terms; for all others there is a matrix for each index.
#include "jit/run/product_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "coconet/error.h"
#include "ir/factors.h"

namespace coconet::jit {

namespace {

// What BLAS libraries count with.
constexpr std::int64_t largest_int = std::numeric_limits<int>::max();

/// The places of the tensors in `Dimension::strides`.
enum Place : std::uint8_t { left = 0, right = 1, out = 2 };

/// A dimension of the result, or one that is contracted.
struct Dimension {
  std::int64_t extent = 1;
  /// Elements from one index to the next, by tensor; 0 where it has no such dimension.
  std::array<std::int64_t, 3> strides = {0, 0, 0};
};

class Product {
 public:
  Product(const RankPlan& plan, const sched::MatmulStep& step)
      : node_(plan.graph().at(step.value)) {
    const ir::Part& result = plan.part(step.value);
    for (std::size_t d = 0; d < result.extent.size(); ++d)
      dims_.push_back({result.extent[d], {0, 0, stride(result, d)}});
    for (const std::size_t side : {left, right}) {
      const ir::Part& own = plan.part(node_.operands[side]);
      const ir::Factors factors = ir::factors_of(plan.graph(), node_, side);
      for (std::size_t d = 0; d < factors.size(); ++d) {
        if (factors[d].kind != ir::Factor::Kind::passes) continue;
        Dimension& dim = dims_[static_cast<std::size_t>(factors[d].of_result)];
        dim.strides[side] = stride(own, d);
        first_[side] += (result.begin[factors[d].of_result] - own.begin[d]) * stride(own, d);
      }
      const std::vector<std::size_t> contracted = ir::contracted_dims(factors);
      terms_.resize(contracted.size());
      for (std::size_t i = 0; i < contracted.size(); ++i) {
        terms_[i].extent = own.extent[contracted[i]];
        terms_[i].strides[side] = stride(own, contracted[i]);
      }
    }
  }

  ProductShape shape() {
    ProductShape product;
    product.swapped = is_transposed();
    if (product.swapped) {
      for (std::vector<Dimension>* const dims : {&dims_, &terms_}) {
        for (Dimension& dim : *dims) std::swap(dim.strides[left], dim.strides[right]);
      }
      std::swap(first_[left], first_[right]);
    }
    const Dimension terms = all_terms();
    const Dimension columns = taken_columns();
    const Dimension rows = taken_rows();
    MatmulShape& shape = product.matrices;
    shape.dtype = node_.dtype;
    shape.rows = rows.extent;
    shape.columns = columns.extent;
    shape.terms = terms.extent;
    shape.a = operand(rows, terms, left);
    shape.b = operand(terms, columns, right);
    shape.out = operand(rows, columns, out);
    if (shape.out.transposed) refuse();
    for (const Dimension& dim : dims_) {
      repeat(shape.a, dim, left);
      repeat(shape.b, dim, right);
      repeat(shape.out, dim, out);
    }
    return product;
  }

 private:
  static std::int64_t stride(const ir::Part& part, std::size_t dim) {
    std::int64_t elements = 1;  // not 0 where a rank's part is empty
    for (std::size_t inner = dim + 1; inner < part.extent.size(); ++inner)
      elements *= std::max<std::int64_t>(part.extent[inner], 1);
    return elements;
  }

  [[noreturn]] void refuse() const {
    throw InternalError(
        fmt::format("'{}' was lowered as a product of matrices that are not there", node_.name));
  }

  /// Of one operand alone.
  static bool is_kept(const Dimension& dim, std::size_t side) {
    return dim.strides[side] != 0 && dim.strides[1 - side] == 0;
  }

  /// Whether the left operand has the columns of the result, and the right one rows.
  [[nodiscard]] bool is_transposed() const {
    return !dims_.empty() && is_kept(dims_.back(), left) &&
           std::ranges::any_of(dims_, [](const Dimension& dim) { return is_kept(dim, right); });
  }

  /// Whether the tensors at `places` hold `inner` and the next outer dimension as one.
  static bool are_one(const Dimension& inner, const Dimension& outer,
                      std::initializer_list<Place> places) {
    if (inner.extent == 0 || outer.extent == 0) return true;  // of which nothing is read
    return std::ranges::all_of(places, [&](Place place) {
      return outer.strides[place] == inner.strides[place] * inner.extent;
    });
  }

  /// Makes one of them where they are, and libraries count so far.
  static bool joined(Dimension& inner, const Dimension& outer,
                     std::initializer_list<Place> places) {
    if (!are_one(inner, outer, places) || inner.extent * outer.extent > largest_int) return false;
    inner.extent *= outer.extent;
    return true;
  }

  Dimension all_terms() const {
    if (terms_.empty()) return {1, {1, 1, 0}};
    Dimension all = terms_.back();
    for (std::size_t i = terms_.size() - 1; i-- > 0;) {
      if (!are_one(all, terms_[i], {left, right}) && terms_[i].extent != 1) refuse();
      all.extent *= terms_[i].extent;
    }
    return all;
  }

  /// Takes the last dimensions out of those of the result, where they are the right operand's.
  Dimension taken_columns() {
    if (dims_.empty() || !is_kept(dims_.back(), right)) return {1, {0, 1, 1}};
    Dimension columns = dims_.back();
    dims_.pop_back();
    while (!dims_.empty() && is_kept(dims_.back(), right) &&
           joined(columns, dims_.back(), {right, out}))
      dims_.pop_back();
    return columns;
  }

  /// Takes dimensions of the left operand out of those of the result: the last one, unless another
  /// one is contiguous there, and those around it that are one with it. The last one of a `matmul`
  /// stays, so that its rows are in the order of the result, as tiles of it are.
  Dimension taken_rows() {
    std::size_t found = dims_.size();
    for (std::size_t d = dims_.size(); d-- > 0;) {
      if (!is_kept(dims_[d], left)) continue;
      if (found == dims_.size() || (dims_[found].strides[left] != 1 && dims_[d].strides[left] == 1))
        found = d;
    }
    if (found == dims_.size()) return {1, {1, 0, 1}};
    Dimension rows = dims_[found];
    dims_.erase(dims_.begin() + static_cast<std::ptrdiff_t>(found));
    while (found-- > 0 && is_kept(dims_[found], left) && joined(rows, dims_[found], {left, out}))
      dims_.erase(dims_.begin() + static_cast<std::ptrdiff_t>(found));
    return rows;
  }

  /// The matrices of `down` x `across` that the tensor at `place` holds, of which the first alone
  /// is known.
  MatmulShape::Operand operand(const Dimension& down, const Dimension& across, Place place) const {
    const std::int64_t of_down = down.strides[place], of_across = across.strides[place];
    MatmulShape::Operand operand;
    operand.matrices = {place == out ? 0 : first_[place]};
    if (of_across == 1 || across.extent <= 1) {
      operand.row = std::max(down.extent <= 1 ? 1 : of_down, across.extent);
    } else if (of_down == 1 || down.extent <= 1) {
      operand.transposed = true;
      operand.row = std::max(of_across, down.extent);
    } else {
      refuse();
    }
    return operand;
  }

  /// Every matrix so far becomes one for each index of the next inner dimension.
  static void repeat(MatmulShape::Operand& operand, const Dimension& dim, Place place) {
    std::vector<std::int64_t> next;
    next.reserve(operand.matrices.size() * dim.extent);
    for (const std::int64_t matrix : operand.matrices) {
      for (std::int64_t i = 0; i < dim.extent; ++i) next.push_back(matrix + i * dim.strides[place]);
    }
    operand.matrices = std::move(next);
  }

  const ir::Node& node_;
  std::vector<Dimension> dims_;                 ///< of the result, outer ones first
  std::vector<Dimension> terms_;                ///< that are contracted, likewise
  std::array<std::int64_t, 2> first_ = {0, 0};  ///< the operands' elements for the first index
};

}  // namespace

ProductShape product_shape(const RankPlan& plan, const sched::MatmulStep& step, int cores) {
  ProductShape product = Product(plan, step).shape();
  MatmulShape& shape = product.matrices;
  shape.name = step.name;
  shape.cores = cores;
  shape.has_bias = step.bias >= 0;
  if (shape.has_bias) {
    shape.first_of_bias =
        plan.part(step.value).begin.back() - plan.buffer_part(step.bias).begin.back();
  }
  if (std::max({shape.rows, shape.columns, shape.terms}) > largest_int) {
    throw BackendError(fmt::format(
        "matmul '{0}' multiplies matrices of {1} x {2} and {2} x {3}; BLAS libraries count to {4}",
        shape.name, shape.rows, shape.terms, shape.columns, largest_int));
  }
  return product;
}

}  // namespace coconet::jit
