// Conjugate gradients (Hestenes & Stiefel, 1952) on a dense symmetric positive definite matrix, as
// regression with a Gaussian process has it, beside the same with MPI's collectives and loops
// written by hand. Run it with `mpirun -n 2 07_conjugate_gradients [SIZE...]`.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "coconet/coconet.h"
#include "peer.h"

using namespace coconet;

constexpr double tolerance = 1e-10;  ///< of the residual's norm, over that of b
constexpr int most_iterations = 1000;
constexpr int samples = 15;

/// One iteration. Each rank has some rows of the matrix `A` and as many elements of `x` and of the
/// residual `r`; the direction `p` is whole everywhere.
Program conjugate_gradients(const World& world) {
  Program program("conjugate_gradients", Mesh::over(world));
  const Dim n = program.dim("n");
  const Value a = program.input("A", f64, {n, n}, sliced(0));
  const Value x = program.state("x", f64, {n}, sliced(0));
  const Value r = program.state("r", f64, {n}, sliced(0));
  const Value p = program.state("p", f64, {n}, replicated);
  const Value rr = program.state("rr", f64, {}, replicated);  // r.r

  const Value ap = sum(a * p, {1}).named("Ap");
  const Value alpha = rr / sum(p * ap);
  update(x, x + alpha * p);
  const Value r1 = update(r, r - alpha * ap);
  const Value rr1 = update(rr, sum(square(r1)));
  update(p, all_gather(r1 + rr1 / rr * p).named("gathered"));
  return program;
}

/// The product of the matrix is one kernel, all behind it another.
Schedule two_kernels(const Program& program) {
  Scheduler scheduler(program, "two-kernels");
  scheduler.fuse("advance", {"x.new", "r.new", "rr.new", "gathered", "p.new"});
  return scheduler.schedule();
}

/// (K + 0.1 I) x = b of a known x, where K is the covariance of points on a line, 0.9^|i - j|.
struct Problem {
  explicit Problem(std::size_t n) : covariance(n), solution(n), b(n) {
    for (std::size_t i = 0; i < n; ++i) {
      covariance[i] = std::pow(0.9, static_cast<double>(i)) + (i == 0 ? 0.1 : 0.0);
      solution[i] = std::cos(static_cast<double>(i));
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) b[i] += element(i, j) * solution[j];
    }
    squared_norm = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  }
  [[nodiscard]] double element(std::size_t i, std::size_t j) const {
    return covariance[i < j ? j - i : i - j];
  }
  /// The largest error of elements of x from `first` on.
  [[nodiscard]] double error_of(std::span<const double> x, std::size_t first) const {
    double largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = std::abs(x[i] - solution[first + i]);
      if (!(error <= largest)) largest = error;  // NaN is one, too
    }
    return largest;
  }

  std::vector<double> covariance, solution, b;
  double squared_norm = 0;
};

/// The library's way, of a matrix that this rank fills its rows of.
class Library {
 public:
  Library(const World& world, const Problem& problem)
      : problem_(problem),
        program_(conjugate_gradients(world)),
        step_(compile(program_, two_kernels(program_), world,
                      {{"n", static_cast<long>(problem.b.size())}})),
        matrix_(step_.data<double>("A")) {
    const std::size_t n = problem.b.size(), first = step_.slice_of("A").begin[0];
    for (std::size_t i = 0; i < matrix_.size(); ++i)
      matrix_[i] = problem.element(first + i / n, i % n);
  }

  /// x = 0, where b is both the residual and the direction.
  void begin() {
    step_.write_whole("x", std::vector<double>(problem_.b.size()));
    step_.write_whole("r", problem_.b);
    step_.write("p", problem_.b);
    step_.write("rr", std::span(&problem_.squared_norm, 1));
  }
  void iterate() { step_.run(); }
  [[nodiscard]] double squared_residual() { return step_.scalar_of<double>("rr"); }
  /// Collective: the largest error of x.
  [[nodiscard]] double error() {
    std::vector<double> x(problem_.b.size());
    step_.read_whole("x", x);
    return problem_.error_of(x, 0);
  }
  [[nodiscard]] std::span<const double> matrix() const { return matrix_; }
  /// Collective.
  [[nodiscard]] std::size_t kernels() { return step_.report().kernels.size(); }

 private:
  const Problem& problem_;
  Program program_;
  Executable step_;
  std::span<double> matrix_;
};

/// Iterations from the beginning until the residual is small.
template <class Solver>
int solve(Solver& solver, const Problem& problem) {
  solver.begin();
  for (int count = 1; count <= most_iterations; ++count) {
    solver.iterate();
    if (solver.squared_residual() <= tolerance * tolerance * problem.squared_norm) return count;
  }
  return most_iterations;
}

/// Microseconds of each of the first `count` iterations, on the slowest rank: the mean of as many
/// solutions as take half a millisecond.
template <class Solver>
double time_of(Solver& solver, const World& world, int count) {
  double us = 0;
  int solutions = 0;
  for (; us < 500; ++solutions) {
    solver.begin();
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) solver.iterate();
    const auto end = std::chrono::steady_clock::now();
    us += largest_of_ranks(std::chrono::duration<double, std::micro>(end - start).count());
  }
  return us / solutions / count;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The fastest of all ways of the peer, after a look at each.
std::unique_ptr<Peer> fastest_peer(const World& world, const Problem& problem,
                                   std::span<const double> matrix, int count) {
  constexpr int looks = 3;
  std::unique_ptr<Peer> fastest;
  double least = std::numeric_limits<double>::infinity();
  for (const bool gathers_residual : {false, true}) {
    for (const int rows : {1, 4, 8}) {
      auto peer =
          std::make_unique<Peer>(matrix, problem.b, block_length(problem.b.size(), world.size()),
                                 world.rank(), world.size(), PeerWay{gathers_residual, rows});
      double us = time_of(*peer, world, count);
      for (int look = 1; look < looks; ++look) us = std::min(us, time_of(*peer, world, count));
      if (us >= least) continue;
      least = us;
      fastest = std::move(peer);
    }
  }
  return fastest;
}

/// Solves the problem of size `n` both ways, and prints a row of the table.
void compare(const World& world, std::size_t n) {
  const Problem problem(n);
  Library library(world, problem);
  const int count = solve(library, problem);
  const double residual = std::sqrt(library.squared_residual() / problem.squared_norm);
  const double error = library.error();

  // Both multiply by the same memory: where its pages happen to lie would matter more than how.
  const int timed = std::min(count, 32);
  const std::unique_ptr<Peer> peer = fastest_peer(world, problem, library.matrix(), timed);
  std::vector<double> library_us, peer_us, ratios;
  for (int sample = 0; sample < samples; ++sample) {
    library_us.push_back(time_of(library, world, timed));
    peer_us.push_back(time_of(*peer, world, timed));
    ratios.push_back(peer_us.back() / library_us.back());
  }
  solve(*peer, problem);
  const double peer_error = largest_of_ranks(problem.error_of(peer->solution(), peer->first_row()));
  const std::size_t kernels = library.kernels();
  if (world.rank() == 0) {
    std::printf("%5zu %10d %9.1e %9.1e %9.1e %7zu %10.2f %10.2f %6.2f  %s\n", n, count, residual,
                error, peer_error, kernels, median(library_us), median(peer_us), median(ratios),
                peer->way().str().c_str());
    std::fflush(stdout);
  }
}

int main(int argc, char** argv) {
  const World world = World::mpi();
  std::vector<long> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atol(argv[i]));
  if (sizes.empty()) sizes = {64, 128, 256, 512, 1024, 2048};
  if (std::ranges::min(sizes) < 1) {
    if (world.rank() == 0) std::fprintf(stderr, "usage: 07_conjugate_gradients [SIZE...]\n");
    return 1;
  }
  if (world.rank() == 0) {
    std::printf("conjugate gradients, %d ranks; microseconds of an iteration, medians of %d\n",
                world.size(), samples);
    std::printf("%5s %10s %9s %9s %9s %7s %10s %10s %6s  %s\n", "n", "iterations", "residual",
                "error", "MPI error", "kernels", "us", "MPI us", "ratio", "the fastest MPI way");
  }
  for (const long n : sizes) compare(world, static_cast<std::size_t>(n));
}
