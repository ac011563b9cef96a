// Timing executables against each other, on all ranks of a world.
#pragma once

#include <optional>
#include <vector>

#include "coconet/executable.h"
#include "coconet/world.h"

namespace coconet::jit {

/// An executable with data in all that it reads, and the scalars that it runs with.
class Contestant {
 public:
  /// Collective: compiles `program` under `schedule`, fills its inputs and states, and runs it
  /// until its times no longer fall. Throws what `compile` and `run` do.
  Contestant(const World& world, const Program& program, const Schedule& schedule,
             const Sizes& sizes);

  /// Collective: milliseconds of a step, on the rank where it takes longest: the mean of as many as
  /// take some milliseconds.
  double sample();

 private:
  void fill();
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
/// After the first two pairs the challenger is given up when it took `hopeless` times as long in
/// each. All ranks get the same.
[[nodiscard]] Comparison compare(Contestant& champion, Contestant& challenger, int pairs,
                                 double hopeless);

}  // namespace coconet::jit
