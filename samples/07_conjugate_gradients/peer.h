// What an application does without this library: conjugate gradients with MPI's collectives and
// loops written by hand.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

/// How the ranks of a Peer exchange, and how many rows of the matrix one pass takes. Which is the
/// fastest depends on the size.
struct PeerWay {
  /// Allreduce p.Ap, Allreduce r.r, Allgather p; or Allreduce p.Ap, and Allgather r together with
  /// each rank's share of r.r, after which every rank updates all of p.
  bool gathers_residual = false;
  int rows = 4;  ///< 1, 4 or 8, which share the loads of p
  [[nodiscard]] std::string str() const;
};

/// Collective: the largest of all ranks' values.
double largest_of_ranks(double value);

class Peer {
 public:
  /// `matrix` is this rank's rows, of which each rank has `block` and the last may have fewer; `b`
  /// is whole. Both must outlive this.
  Peer(std::span<const double> matrix, std::span<const double> b, std::size_t block, int rank,
       int ranks, PeerWay way);

  /// x = 0, where b is both the residual and the direction.
  void begin();
  /// One iteration, with all ranks.
  void iterate();
  /// The square of the residual's norm.
  [[nodiscard]] double squared_residual() const { return rr_; }
  /// This rank's rows of x, and which is the first.
  [[nodiscard]] std::span<const double> solution() const { return {x_.get(), count_}; }
  [[nodiscard]] std::size_t first_row() const { return first_; }
  [[nodiscard]] const PeerWay& way() const { return way_; }

 private:
  double multiply();                 ///< ap = A p; this rank's share of p.Ap
  double advance(double alpha);      ///< x and r; this rank's share of r.r
  void turn(double beta, int rank);  ///< the block of p that `rank` has the rows of

  std::span<const double> matrix_, b_;
  std::size_t n_, block_, first_, count_;
  int rank_, ranks_;
  PeerWay way_;
  double rr_ = 0;
  struct Free {
    void operator()(double* data) const { std::free(data); }
  };
  using Array = std::unique_ptr<double[], Free>;  // NOLINT: aligned for any vector
  static Array make_array(std::size_t count);

  std::size_t stride_;  ///< from one rank's block of r to the next one's, which is aligned, too
  // `p_` has room for a whole block of each rank. `gathered_` has each rank's block of r, and its
  // share of r.r behind it; `r_` is this rank's block there.
  Array p_, ap_, x_, gathered_;
  double* r_ = nullptr;
};
