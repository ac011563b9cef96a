// How the weights of the transformer begin.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "coconet/coconet.h"

/// Writes the same weights on every rank, and returns how many numbers they are.
inline std::size_t initialise(coconet::Executable& step,
                              const std::vector<coconet::programs::Gpt::Weight>& weights) {
  std::mt19937 random(1);
  std::size_t parameters = 0;
  for (const auto& [weight, fan_in] : weights) {
    std::vector<float> values(step.count(weight.name()), 1);
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(fan_in)));
    if (fan_in > 0) std::ranges::generate(values, [&] { return normal(random); });
    step.write_whole(weight.name(), values);
    parameters += values.size();
  }
  return parameters;
}
