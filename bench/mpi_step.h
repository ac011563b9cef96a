// A step that takes MPI and nothing of this library.
#pragma once

#include <vector>

namespace bench {

/// With its arrays, on one rank.
class MpiStep {
 public:
  MpiStep() = default;
  MpiStep(const MpiStep&) = delete;
  MpiStep& operator=(const MpiStep&) = delete;
  virtual ~MpiStep() = default;
  virtual void begin() = 0;
  /// Collective.
  virtual void step(int t) = 0;
  [[nodiscard]] virtual std::vector<float> results() const = 0;
  /// Steps that may follow one `begin`.
  [[nodiscard]] virtual int most_steps() const { return 4096; }
};

}  // namespace bench
