// The problem that contestants solve.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace bench {

/// Of all weights, before the first step.
inline constexpr float first_weight = 0.5f;

/// A gradient that differs between ranks and elements, some of which are zero.
struct Gradient {
  std::size_t rank;
  float operator()(std::size_t i) const {
    return 0.01f * (static_cast<float>((7 * i + 3 * rank) % 19) - 9.0f);
  }
};

inline std::vector<float> make_gradient(std::size_t n, int rank) {
  const Gradient gradient{static_cast<std::size_t>(rank)};
  std::vector<float> g(n);
  for (std::size_t i = 0; i < n; ++i) g[i] = gradient(i);
  return g;
}

/// Writes the operand of a collective, as the kernel in front of it would: what a rank has just
/// written is in its caches alone.
inline void write_again(std::span<float> operand) {
  for (float& x : operand) x = -x;
}

}  // namespace bench
