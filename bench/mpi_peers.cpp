// The peers under another MPI than the benchmark's own: takes turns with it through a file, as
// other_mpi.h says. Takes nothing of this library but its 16-bit types, so that any MPI's compiler
// builds it alone.
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi_steps.h"
#include "other_mpi.h"
#include "timing.h"

namespace {

using bench::Turn;

/// What this rank does when it is asked.
class Server {
 public:
  Server(std::string path, int rank, int ranks)
      : path_(std::move(path)), rank_(rank), ranks_(ranks) {}

  /// Until the end.
  void serve() {
    const std::shared_ptr<Turn> turn = Turn::at(path_);
    constexpr double longest = 3600;
    for (std::uint32_t number = 1; Turn::wait(turn->asked, number, longest); ++number) {
      if (turn->ask == Turn::Ask::end) return;
      std::string error;
      try {
        answer(*turn);
      } catch (const std::exception& caught) {
        error = caught.what();
      }
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank_ != 0) continue;
      std::snprintf(turn->error, sizeof turn->error, "%s", error.c_str());
      Turn::set(turn->answered, number);
    }
  }

 private:
  void answer(Turn& turn) {
    if (turn.ask == Turn::Ask::drop) return steps_.clear();
    std::unique_ptr<bench::MpiStep>& step = steps_[turn.name];
    switch (turn.ask) {
      case Turn::Ask::make: {
        const auto found = bench::mpi_steps().find(turn.name);
        if (found == bench::mpi_steps().end())
          throw std::invalid_argument("there is no step " + std::string(turn.name));
        step = found->second(turn.n, rank_, ranks_);
        turn.most_steps = step->most_steps();
        return;
      }
      case Turn::Ask::begin:
        return step->begin();
      case Turn::Ask::step:
        return step->step(turn.t);
      case Turn::Ask::results: {
        const std::vector<float> results = step->results();
        std::ofstream file(Turn::results_of(path_, rank_), std::ios::binary);
        file.write(reinterpret_cast<const char*>(results.data()),
                   static_cast<std::streamsize>(results.size() * sizeof(float)));
        if (!file.flush()) throw std::runtime_error("cannot write results");
        return;
      }
      case Turn::Ask::sample: {
        const bench::Contestant contestant{.name = "",
                                           .begin = [&step] { step->begin(); },
                                           .step = [&step](int t) { step->step(t); }};
        const double ms = bench::sample(contestant, turn.t);
        if (rank_ == 0) turn.ms = ms;
        return;
      }
      case Turn::Ask::drop:
      case Turn::Ask::end:
        return;
    }
  }

  std::string path_;
  int rank_, ranks_;
  std::map<std::string, std::unique_ptr<bench::MpiStep>> steps_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc == 2) {
    Server(argv[1], rank, ranks).serve();
  } else if (rank == 0) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
  }
  MPI_Finalize();
  return argc == 2 ? 0 : 1;
}
