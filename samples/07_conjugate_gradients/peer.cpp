// The loops of the peer, in vectors that gcc and clang know.
#include "peer.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

namespace {

// As many as one register of the processor has.
#if defined(__AVX512F__)
constexpr std::size_t lanes = 8;
#elif defined(__AVX__)
constexpr std::size_t lanes = 4;
#else
constexpr std::size_t lanes = 2;
#endif
typedef double Vector __attribute__((vector_size(lanes * sizeof(double))));  // NOLINT

inline Vector load(const double* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void store(double* to, const Vector& value) {
  std::memcpy(to, &value, sizeof value);
}
inline double sum_of(Vector v) {
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
}

/// ap[r] = row r . p, for some rows that share the loads of p.
template <std::size_t rows>
inline void multiply_rows(const double* matrix, const double* p, std::size_t n, double* ap) {
  Vector sums[rows] = {};
  std::size_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    const Vector some = load(p + j);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) sums[r] += load(matrix + r * n + j) * some;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) {
    ap[r] = sum_of(sums[r]);
    for (std::size_t rest = j; rest < n; ++rest) ap[r] += matrix[r * n + rest] * p[rest];
  }
}

/// ap = matrix p of `count` rows. Returns own . ap, where `own` is p at those rows.
template <std::size_t rows>
double multiply_all(const double* matrix, const double* p, const double* own, std::size_t count,
                    std::size_t n, double* ap) {
  double total = 0;
  std::size_t i = 0;
  for (; i + rows <= count; i += rows) {
    multiply_rows<rows>(matrix + i * n, p, n, ap + i);
    for (std::size_t r = i; r < i + rows; ++r) total += own[r] * ap[r];
  }
  for (; i < count; ++i) {
    multiply_rows<1>(matrix + i * n, p, n, ap + i);
    total += own[i] * ap[i];
  }
  return total;
}

}  // namespace

std::string PeerWay::str() const {
  return std::string(gathers_residual ? "2 collectives, " : "3 collectives, ") +
         std::to_string(rows) + (rows == 1 ? " row" : " rows");
}

double largest_of_ranks(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

Peer::Peer(std::span<const double> matrix, std::span<const double> b, std::size_t block, int rank,
           int ranks, PeerWay way)
    : matrix_(matrix),
      b_(b),
      n_(b.size()),
      block_(block),
      first_(std::min(static_cast<std::size_t>(rank) * block, n_)),
      count_(std::min(block, n_ - first_)),
      rank_(rank),
      ranks_(ranks),
      way_(way),
      stride_(block / lanes * lanes + lanes),
      p_(make_array(block * ranks)),
      ap_(make_array(block)),
      x_(make_array(block)),
      gathered_(make_array(stride_ * ranks)),
      r_(gathered_.get() + stride_ * rank) {}

Peer::Array Peer::make_array(std::size_t count) {
  const std::size_t bytes = (count + lanes) / lanes * sizeof(Vector);
  auto* const data = static_cast<double*>(std::aligned_alloc(sizeof(Vector), bytes));
  if (data == nullptr) throw std::bad_alloc();
  return Array(data);
}

void Peer::begin() {
  std::fill_n(p_.get(), block_ * ranks_, 0.0);
  std::copy(b_.begin(), b_.end(), p_.get());
  std::fill_n(gathered_.get(), stride_ * ranks_, 0.0);
  for (std::size_t i = 0; i < n_; ++i) gathered_[i / block_ * stride_ + i % block_] = b_[i];
  std::fill_n(x_.get(), count_, 0.0);
  rr_ = std::inner_product(b_.begin(), b_.end(), b_.begin(), 0.0);
}

double Peer::multiply() {
  const double* const own = p_.get() + first_;
  switch (way_.rows) {
    case 1:
      return multiply_all<1>(matrix_.data(), p_.get(), own, count_, n_, ap_.get());
    case 4:
      return multiply_all<4>(matrix_.data(), p_.get(), own, count_, n_, ap_.get());
    default:
      return multiply_all<8>(matrix_.data(), p_.get(), own, count_, n_, ap_.get());
  }
}

double Peer::advance(double alpha) {
  const double* const own = p_.get() + first_;
  Vector sums = {};
  std::size_t i = 0;
  for (; i + lanes <= count_; i += lanes) {
    store(x_.get() + i, load(x_.get() + i) + alpha * load(own + i));
    const Vector r = load(r_ + i) - alpha * load(ap_.get() + i);
    store(r_ + i, r);
    sums += r * r;
  }
  double rr = sum_of(sums);
  for (; i < count_; ++i) {
    x_[i] += alpha * own[i];
    r_[i] -= alpha * ap_[i];
    rr += r_[i] * r_[i];
  }
  return rr;
}

void Peer::iterate() {
  const auto add = [](double& value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  };
  const auto gather = [](double* values, std::size_t count) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, static_cast<int>(count), MPI_DOUBLE,
                  MPI_COMM_WORLD);
  };
  double pap = multiply();
  add(pap);
  double rr = advance(rr_ / pap);
  if (way_.gathers_residual) {
    r_[block_] = rr;  // behind this rank's block
    gather(gathered_.get(), stride_);
    rr = 0;
    for (int rank = 0; rank < ranks_; ++rank) rr += gathered_[stride_ * rank + block_];
    for (int rank = 0; rank < ranks_; ++rank) turn(rr / rr_, rank);
  } else {
    add(rr);
    turn(rr / rr_, rank_);
    gather(p_.get(), block_);
  }
  rr_ = rr;
}

void Peer::turn(double beta, int rank) {
  double* const p = p_.get() + block_ * rank;
  const double* const r = gathered_.get() + stride_ * rank;
  for (std::size_t i = 0; i < block_; ++i) p[i] = r[i] + beta * p[i];
}
