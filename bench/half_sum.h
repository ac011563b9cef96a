// The sum of 16-bit floats by MPI, which knows none: an operation of this program.
#pragma once

#include <mpi.h>

#include <algorithm>

#include "half_lines.h"

namespace bench {

/// `Element` is coconet::Half or coconet::BFloat16.
template <class Element>
class HalfSum {
 public:
  HalfSum() { MPI_Op_create(&HalfSum::add, 1, &op_); }
  HalfSum(const HalfSum&) = delete;
  HalfSum& operator=(const HalfSum&) = delete;
  ~HalfSum() { MPI_Op_free(&op_); }

  /// Of elements that are sent as MPI_UINT16_T.
  [[nodiscard]] MPI_Op op() const { return op_; }

 private:
  static void add_line(const Element* in, Element* inout) {
    float a[line], b[line];
    widen_line(in, a);
    widen_line(inout, b);
    for (std::size_t l = 0; l < line; ++l) b[l] += a[l];
    narrow_line(b, inout);
  }
  /// MPI's reduction of `length` elements.
  static void add(void* in, void* inout, int* length, MPI_Datatype*) {
    const auto* const from = static_cast<const Element*>(in);
    auto* const to = static_cast<Element*>(inout);
    const auto count = static_cast<std::size_t>(*length);
    const std::size_t whole = count / line * line;
    for (std::size_t i = 0; i < whole; i += line) add_line(from + i, to + i);
    Element rest_in[line] = {}, rest_inout[line] = {};
    std::copy(from + whole, from + count, rest_in);
    std::copy(to + whole, to + count, rest_inout);
    add_line(rest_in, rest_inout);
    std::copy_n(rest_inout, count - whole, to + whole);
  }

  MPI_Op op_{};
};

}  // namespace bench
