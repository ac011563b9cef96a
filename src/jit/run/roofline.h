// How fast this machine copies and multiplies: what binds a step.
#pragma once

#include <map>

#include "jit/platform/platform.h"

namespace coconet::jit {

class Roofline {
 public:
  /// With so many `cores` of every rank.
  Roofline(Comm& comm, const Platform& platform, int cores)
      : comm_(comm), platform_(platform), cores_(cores) {}

  /// Collective: milliseconds that copying takes when it moves `bytes` (half read, half written) on
  /// all ranks at once.
  double copy_ms(std::uint64_t bytes);
  /// Collective: milliseconds of `operations`, multiplications and additions, in the product of
  /// large square matrices of `dtype`, on all ranks at once.
  double multiply_ms(DType dtype, double operations);

 private:
  double measure_copy(std::size_t half);
  /// Milliseconds of an operation in products of matrices so large that one takes long.
  double measure_product(DType dtype);
  /// Of the product of two matrices of `n` rows and columns.
  double product_ms(DType dtype, std::int64_t n);

  Comm& comm_;
  const Platform& platform_;
  int cores_;
  std::map<int, double> ms_per_byte_;  ///< of copies, by their size's binary logarithm
  std::map<DType, double> ms_per_operation_;
};

}  // namespace coconet::jit
