// The peers of a row: steps that take MPI alone, under the benchmark's own MPI and under the others
// that run beside it. The fastest is the row's.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_steps.h"
#include "other_mpi.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace bench {

/// The other MPIs, on one rank; all ranks make the same calls.
class Peers {
 public:
  /// `others` as NAME=FILE.
  Peers(const std::vector<std::string>& others, int rank, int ranks) : rank_(rank), ranks_(ranks) {
    for (const std::string& other : others)
      others_.push_back(std::make_unique<OtherMpi>(other, rank));
  }

  /// Enters the step `name` of `n` elements under each MPI, and calls `verify(contestant, results)`
  /// for each, with what returns the rank's results.
  template <class Verify>
  void enter(std::vector<Contestant>& contestants, const std::string& name, std::size_t n,
             const Verify& verify) {
    MpiStep* const step = steps_.emplace_back(mpi_steps().at(name)(n, rank_, ranks_)).get();
    contestants.push_back({.name = name + own_,
                           .begin = [step] { step->begin(); },
                           .step = [step](int t) { step->step(t); },
                           .most_steps = step->most_steps()});
    verify(contestants.back(), [step] { return step->results(); });
    for (const auto& other : others_) {
      OtherMpi* const mpi = other.get();
      contestants.push_back(
          {.name = name + std::string(under) + mpi->name(),
           .begin = [mpi, name] { mpi->begin(name); },
           .step = [mpi, name](int t) { mpi->run(name, t); },
           .most_steps = mpi->make(name, n),
           .elsewhere = [mpi, name](int steps) { return mpi->sample(name, steps); }});
      verify(contestants.back(), [mpi, name] { return mpi->results(name); });
    }
  }
  /// Of those that have entered and were measured: puts the fastest into `row`.
  static void put_fastest(const std::vector<Contestant>& contestants, Row& row) {
    for (const Contestant& one : contestants) {
      const std::size_t at = one.name.find(under);
      if (at == std::string::npos || (row.peer_ms && *row.peer_ms <= one.ms)) continue;
      row.peer_ms = one.ms;
      row.peer = one.name.substr(at + under.size());
      if (one.name.find(in_place) != std::string::npos) row.peer += in_place;
    }
  }
  /// Frees the memory of all that have entered.
  void clear() {
    steps_.clear();
    for (const auto& other : others_) other->drop();
  }

 private:
  static constexpr std::string_view under = " under ";
  static std::string own_mpi() {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string_view text(version, static_cast<std::size_t>(length));
    return std::string(text.substr(0, text.find_first_of(",\n")));
  }

  int rank_, ranks_;
  std::string own_ = std::string(under) + own_mpi();
  std::vector<std::unique_ptr<OtherMpi>> others_;
  std::vector<std::unique_ptr<MpiStep>> steps_;
};

}  // namespace bench
