// The ranks of fault_matrix_test.cpp, which are processes, and how one of them is lost.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "coconet/schedule.h"

namespace coconet::test::faults {

inline constexpr int ranks = 4;
inline constexpr int lost = 2;  // the rank that the fault happens to

enum class Fault { kill, stop, pause, exit, exception, abort };
enum class Phase { compile, before, inside, between, library, checkpoint };

struct FaultCase {
  Knobs knobs;
  Phase phase;
  Fault fault;
  bool shrinks = false;  // the others go on in a world of their own
};

/// What the test and its ranks share.
struct Shared {
  struct Rank {
    std::atomic<std::int64_t> ended;  // nanoseconds of Clock
    char what[4096];                  // what it threw; empty: all its results were right
    char text[1 << 16];               // of the gather
    std::size_t length;
    std::array<float, 1000> weights;  // that a training ended with
  };
  std::atomic<int> trained{-1};        // steps that rank 0 has taken
  std::atomic<std::int64_t> happened;  // the fault, in nanoseconds of Clock
  std::atomic<int> come, gone;
  std::array<Rank, ranks> rank;
};

/// Nanoseconds of std::chrono::steady_clock.
[[nodiscard]] std::int64_t now();

/// A signal at the last barrier of the first kernel of a step, and one at the first barrier of the
/// second; with mailboxes, where the kernels begin: a script for `PlantedCompiler`.
inline constexpr std::string_view raises_signals =
    R"(/waiting for other ranks, and their barrier/i extern "C" int raise(int signal);
/^  const u64 target = barrier_value(sync.epoch + phase, sync.given, false);/i)"
    R"(   if (sync.rank == 2 \&\& sync.step != phase) raise(sync.step == 0 ? 10 : 12);
/^  DEVICE_MEMBER bool run/,/^  }/ s/^    const int rank = int(sync.rank);$/&)"
    R"( if (rank == 2) raise(sync.step == 0 ? 10 : 12);/)";
static_assert(SIGUSR1 == 10 && SIGUSR2 == 12);

/// What these signals do on the rank that is lost.
void on_signal(int signal);

/// The body of a rank of the matrix. Throws what the step throws.
void run_case(int rank, const FaultCase& c, Shared& shared);

inline constexpr int steps_of_training = 60;
/// Trains with checkpoints in `directory`, and goes on from the newest in a smaller world when a
/// rank is lost. All ranks have the same gradient, whose mean is exact on any number of them.
void train(int rank, Shared& shared, const std::filesystem::path& directory);

}  // namespace coconet::test::faults
