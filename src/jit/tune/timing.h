// Timing executables against each other, on all ranks of a world.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coconet/executable.h"
#include "coconet/world.h"
#include "jit/run/compile.h"
#include "jit/tune/paired_ratios.h"

namespace coconet::jit {

/// Filled tensors that the contestants of a search share, one after the other: to back memory with
/// pages and to fill it takes longer than to measure.
class SharedTensors {
 public:
  /// Collective: memory of the world for `count` elements on every rank, filled.
  const Buffer& get(const World& world, const std::string& name, DType dtype, std::size_t count);

 private:
  std::map<std::pair<std::string, std::size_t>, Buffer> buffers_;
};

/// How long threads of ranks ran, and how much of it on a processor.
struct Occupancy {
  double wall_ms = 0, cpu_ms = 0;
  void add(const Occupancy& other) {
    wall_ms += other.wall_ms;
    cpu_ms += other.cpu_ms;
  }
  /// The share that other processes took; 0 of nothing.
  [[nodiscard]] double preempted() const;
};
/// From this share on, what was measured is not relied on.
inline constexpr double is_busy = 0.1;
/// Collective: whether other processes leave the ranks their processors now, for some milliseconds.
[[nodiscard]] bool is_machine_quiet(Comm& comm);

/// An executable with data in all that it reads, and the scalars that it runs with.
class Contestant {
 public:
  /// Collective: compiles `program` under `schedule`, fills its inputs and states, those of
  /// `shared` where there are such, and runs it until its times no longer fall. Throws what
  /// `compile` and `run` do.
  Contestant(const World& world, const Program& program, const Schedule& schedule,
             const Sizes& sizes, const ParameterLists& lists = {},
             const CompileChoices& choices = {}, SharedTensors* shared = nullptr);

  /// Collective: milliseconds of a step, on the rank where it takes longest, after one that brings
  /// the caches to where a step leaves them: the least of the means of a few stretches, as what
  /// else the machine does makes them longer and never shorter.
  double sample();
  /// Of this rank's thread so far, on the host.
  [[nodiscard]] const Occupancy& occupancy() const { return occupancy_; }

 private:
  void fill(SharedTensors* shared);
  double run(int steps);

  World world_;
  Executable step_;
  std::vector<ScalarValue> scalars_;
  Occupancy occupancy_;
  int steps_ = 1;  ///< of a sample
};

struct Comparison {
  double ratio = 0;  ///< the median of the challenger's time over the champion's, sample by sample
  double ms = 0;     ///< the challenger's median
  /// Whether the ratio is below `Pairing::quicker`, or above it; open where the pairs do not say.
  PairedRatios::Verdict verdict = PairedRatios::Verdict::open;
};
/// How two are compared.
struct Pairing {
  int most = 31;        ///< pairs; fewer where they say earlier which is quicker
  double quicker = 1;   ///< what counts as quicker: a ratio below that
  double hopeless = 0;  ///< four pairs above that end it; 0: they do not
};

/// Collective: samples of both in turn, so that a machine that changes its speed changes both,
/// until they say which is quicker. All ranks get the same.
[[nodiscard]] Comparison compare(Contestant& champion, Contestant& challenger,
                                 const Pairing& pairing);
/// Collective: all of so many pairs.
[[nodiscard]] Comparison compare_all(Contestant& champion, Contestant& challenger, int pairs);

/// Of at least one value.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace coconet::jit
