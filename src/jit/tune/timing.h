// Timing executables against each other, on all ranks of a world.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coconet/executable.h"
#include "coconet/world.h"
#include "jit/run/compile.h"

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

/// An executable with data in all that it reads, and the scalars that it runs with.
class Contestant {
 public:
  /// Collective: compiles `program` under `schedule`, fills its inputs and states, those of
  /// `shared` where there are such, and runs it until its times no longer fall. Throws what
  /// `compile` and `run` do.
  Contestant(const World& world, const Program& program, const Schedule& schedule,
             const Sizes& sizes, const ParameterLists& lists = {},
             const CompileChoices& choices = {}, SharedTensors* shared = nullptr);

  /// Collective: milliseconds of a step, on the rank where it takes longest: the mean of as many as
  /// take some milliseconds, after one that brings the caches to where a step leaves them.
  double sample();

 private:
  void fill(SharedTensors* shared);
  double run(int steps);

  World world_;
  Executable step_;
  std::vector<ScalarValue> scalars_;
  int steps_ = 1;  ///< of a sample
};

struct Comparison {
  double ratio = 0;  ///< the median of the challenger's time over the champion's, sample by sample
  double ms = 0;     ///< the challenger's median
  bool stopped = false;  ///< early, because the first ratios were hopeless
};

/// Collective: samples of both in turn, so that a machine that changes its speed changes both.
/// The challenger is given up when it took `hopeless` times as long in the first pair, a third as
/// much beyond 1 in both of the first two, or never won in three; 0: never. All ranks get the same.
[[nodiscard]] Comparison compare(Contestant& champion, Contestant& challenger, int pairs,
                                 double hopeless);

/// Of at least one value.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace coconet::jit
