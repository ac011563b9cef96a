// MPI's collectives on f32, in place and not.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "arrays.h"
#include "mpi_step.h"
#include "problem.h"

namespace bench {

/// What the names of steps end with that overwrite what they read.
inline constexpr const char* in_place = ", in place";

/// Which ranks have a result.
enum class Receivers { all, first, all_but_first };

/// A collective of a rank's `n` elements.
struct MpiCollective {
  const char* name;
  bool is_in_place;  ///< `in` is where its elements are in `out`
  void (*call)(const float* in, float* out, int n, int rank, int ranks);
  bool takes_part = false, gives_part = false;  ///< `in`, or `out`, holds n / ranks elements
  Receivers receivers = Receivers::all;
};

namespace calls {

inline const void* unless_in_place(const float* in, const float* out) {
  return in == out ? MPI_IN_PLACE : in;
}
inline void all_reduce(const float* in, float* out, int n, int, int) {
  MPI_Allreduce(unless_in_place(in, out), out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
inline void reduce_scatter(const float* in, float* out, int n, int, int ranks) {
  MPI_Reduce_scatter_block(unless_in_place(in, out), out, n / ranks, MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD);
}
inline void all_gather(const float* in, float* out, int n, int, int ranks) {
  MPI_Allgather(unless_in_place(in, out), n / ranks, MPI_FLOAT, out, n / ranks, MPI_FLOAT,
                MPI_COMM_WORLD);
}
inline void reduce(const float* in, float* out, int n, int rank, int) {
  const void* const from = rank == 0 ? unless_in_place(in, out) : in;
  MPI_Reduce(from, out, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
inline void broadcast(const float* in, float* out, int n, int rank, int) {
  // It has one buffer: the root sends what it has.
  MPI_Bcast(rank == 0 ? const_cast<float*>(in) : out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
inline void all_to_all(const float* in, float* out, int n, int, int ranks) {
  MPI_Alltoall(unless_in_place(in, out), n / ranks, MPI_FLOAT, out, n / ranks, MPI_FLOAT,
               MPI_COMM_WORLD);
}
inline void send(const float* in, float* out, int n, int rank, int ranks) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  if (rank > 0) MPI_Irecv(out, n, MPI_FLOAT, rank - 1, 0, MPI_COMM_WORLD, &requests[0]);
  if (rank + 1 < ranks) MPI_Isend(in, n, MPI_FLOAT, rank + 1, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
}

}  // namespace calls

inline constexpr MpiCollective mpi_collectives[] = {
    {"all_reduce", false, calls::all_reduce},
    {"all_reduce, in place", true, calls::all_reduce},
    {"reduce_scatter", false, calls::reduce_scatter, false, true},
    {"reduce_scatter, in place", true, calls::reduce_scatter, false, true},
    {"all_gather", false, calls::all_gather, true},
    {"all_gather, in place", true, calls::all_gather, true},
    {"reduce", false, calls::reduce, false, false, Receivers::first},
    {"reduce, in place", true, calls::reduce, false, false, Receivers::first},
    {"broadcast", false, calls::broadcast},
    {"all_to_all", false, calls::all_to_all},
    {"all_to_all, in place", true, calls::all_to_all},
    {"send", false, calls::send, false, false, Receivers::all_but_first},
};

/// One of them, as a step that writes its operand first.
class MpiCollectiveStep final : public MpiStep {
 public:
  MpiCollectiveStep(std::size_t n, int rank, int ranks, const MpiCollective& collective)
      : collective_(collective),
        n_(n),
        rank_(rank),
        ranks_(ranks),
        in_(make_array(collective.is_in_place ? 0 : n)),
        out_(make_array(n)) {}
  void begin() override {
    std::ranges::copy(make_gradient(operand().size(), rank_), operand().begin());
  }
  void step(int) override {
    write_again(operand());
    collective_.call(collective_.is_in_place ? out_.get() : in_.get(), out_.get(),
                     static_cast<int>(n_), rank_, ranks_);
  }
  [[nodiscard]] std::vector<float> results() const override {
    const bool receives = collective_.receivers == Receivers::all ||
                          (collective_.receivers == Receivers::first) == (rank_ == 0);
    if (!receives) return {};
    const float* const broadcast =
        collective_.call == calls::broadcast && rank_ == 0 ? in_.get() : out_.get();
    return {broadcast,
            broadcast + (collective_.gives_part ? n_ / static_cast<std::size_t>(ranks_) : n_)};
  }

 private:
  /// What this rank has.
  [[nodiscard]] std::span<float> operand() const {
    const std::size_t part = n_ / static_cast<std::size_t>(ranks_);
    float* const first = collective_.is_in_place ? out_.get() : in_.get();
    if (!collective_.takes_part) return {first, n_};
    return {collective_.is_in_place ? first + part * static_cast<std::size_t>(rank_) : first, part};
  }

  MpiCollective collective_;
  std::size_t n_;
  int rank_, ranks_;
  Array in_, out_;
};

}  // namespace bench
