// The peer of a transformer's blocks behind their matmul: MPI_Allreduce of the whole on every rank,
// then bias, dropout and residual as one vectorized loop; in a pipeline every rank then sends the
// whole to the next stage.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "arrays.h"
#include "coconet/dtype.h"
#include "half_sum.h"

namespace bench {

// The random words of dropout: the library's own text, so that the peer draws the same ones as
// fast.
namespace prelude {
using i32 = int;
using i64 = long long;
using u32 = unsigned;
using u64 = unsigned long long;
#define DEVICE static inline __attribute__((always_inline))
#define DEVICE_MEMBER inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 64")
#include "jit/prelude/host/random_words.h"
#undef UNROLL
#undef DEVICE_MEMBER
#undef DEVICE
}  // namespace prelude

/// `Element` is float or coconet::BFloat16. Activations are [rows, hidden], `hidden` a multiple
/// of 16.
template <class Element>
class BlockPeer {
 public:
  BlockPeer(std::size_t rows, std::size_t hidden, MPI_Comm group)
      : rows_(rows),
        hidden_(hidden),
        group_(group),
        sum_(make_array<Element>(rows * hidden)),
        sent_(make_array<Element>(rows * hidden)) {
    MPI_Comm_size(group, &ranks_);
  }

  /// `out` = dropout(sum of `x` over the group + `b`) + `r`. In place `x` is overwritten by the
  /// sum, which is the faster call for some sizes.
  void finish(std::span<Element> x, bool in_place, std::span<const Element> b,
              std::span<const Element> r, std::span<Element> out, int t) {
    compute(all_reduce(x, in_place), b.data(), r.data(), out.data(), t);
  }

  /// `finish`, then sends the result to rank `to` of MPI_COMM_WORLD, or receives one from rank
  /// `from` where `to` is negative.
  void hand_on(std::span<Element> x, bool in_place, std::span<const Element> b,
               std::span<const Element> r, std::span<Element> out, int t, int to, int from) {
    compute(all_reduce(x, in_place), b.data(), r.data(), sent_.get(), t);
    const auto count = static_cast<int>(rows_ * hidden_);
    if (to >= 0) {
      MPI_Send(sent_.get(), count, type, to, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(out.data(), count, type, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }

 private:
  static constexpr bool is_wide = std::is_same_v<Element, float>;
  inline static const MPI_Datatype type = is_wide ? MPI_FLOAT : MPI_UINT16_T;
  // What the blocks' defaults make of a probability of 0.1 and of the seed.
  static constexpr unsigned last_dropped = 429496729;
  static constexpr float scale = 1.1111112f;
  static constexpr unsigned long long seed = 1;

  const Element* all_reduce(std::span<Element> x, bool in_place) {
    if (ranks_ == 1) return x.data();
    const void* const from = in_place ? MPI_IN_PLACE : x.data();
    Element* const sum = in_place ? x.data() : sum_.get();
    MPI_Op op = MPI_SUM;
    if constexpr (!is_wide) op = op_.op();
    MPI_Allreduce(from, sum, static_cast<int>(x.size()), type, op, group_);
    return sum;
  }

  static void read_line(const Element* from, float* to) {
    if constexpr (is_wide) {
      std::copy_n(from, line, to);
    } else {
      widen_line(from, to);
    }
  }
  static void write_line(const float* from, Element* to) {
    if constexpr (is_wide) {
      std::copy_n(from, line, to);
    } else {
      narrow_line(from, to);
    }
  }

  void compute(const Element* __restrict x, const Element* __restrict b,
               const Element* __restrict r, Element* __restrict out, int t) const {
    prelude::RandomWords random;
    random.offset = static_cast<unsigned long long>(t);
    random.seed = seed;
    for (std::size_t row = 0; row < rows_ * hidden_; row += hidden_) {
      for (std::size_t j = 0; j < hidden_; j += line) {
        alignas(64) float value[line], bias[line], residual[line];
        read_line(x + row + j, value);
        read_line(b + j, bias);
        read_line(r + row + j, residual);
        const unsigned* const words = random.of<static_cast<int>(line)>(row + j);
        for (std::size_t l = 0; l < line; ++l) {
          const float kept = (value[l] + bias[l]) * scale;
          value[l] = (words[l] > last_dropped ? kept : 0.0f) + residual[l];
        }
        write_line(value, out + row + j);
      }
    }
  }

  struct Nothing {};
  std::size_t rows_, hidden_;
  MPI_Comm group_;
  int ranks_ = 1;
  ArrayOf<Element> sum_, sent_;
  [[no_unique_address]] std::conditional_t<is_wide, Nothing, HalfSum<Element>> op_;
};

}  // namespace bench
