// Which of two is the quicker, told from pairs of samples as they come.
#pragma once

#include <vector>

namespace coconet::jit {

/// The times of one over those of another, pair by pair. Nothing is assumed of how they vary but
/// that pairs are independent: what is said of their median is said by how many lie on a side.
class PairedRatios {
 public:
  /// Whether the true median is below a bound, or above it.
  enum class Verdict { open, quicker, slower };

  void add(double ratio);
  [[nodiscard]] int count() const { return static_cast<int>(sorted_.size()); }
  /// Of at least one.
  [[nodiscard]] double median() const;
  /// By the pairs so far: after each of them a wrong one has a chance of 1 % at most, so that fewer
  /// than seven say nothing, but that four or more that all are above `hopeless`, if that is not
  /// 0, are slower.
  [[nodiscard]] Verdict verdict(double bound, double hopeless) const;
  /// When no further pair will come: fewer than seven say what they all say.
  [[nodiscard]] Verdict last_verdict(double bound) const;

 private:
  [[nodiscard]] Verdict verdict_beside(double bound, int outside) const;

  std::vector<double> sorted_;
};

}  // namespace coconet::jit
