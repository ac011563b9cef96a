// A small neural network, 64-64-10 with tanh and softmax cross entropy, its parameters in one flat
// array.
#pragma once

#include <cstddef>
#include <span>

#include "digits.h"

namespace mlp {

inline constexpr std::size_t inputs = Digits::pixels, hidden = 64, outputs = 10;

// Where the layers are in the flat array; matrices are row-major, one row an output.
inline constexpr std::size_t weights1 = 0, biases1 = weights1 + hidden * inputs;
inline constexpr std::size_t weights2 = biases1 + hidden, biases2 = weights2 + outputs * hidden;
inline constexpr std::size_t parameters = biases2 + outputs;

using Image = std::span<const float, inputs>;
using Parameters = std::span<const float>;

/// Random weights (Glorot & Bengio, 2010) and zero biases: the same on every machine and rank.
void initialise(std::span<float> w);

/// Adds the gradient of one image's loss to `gradient` and returns the loss.
double add_gradient(Parameters w, Image image, int label, std::span<double> gradient);

/// The most likely digit.
[[nodiscard]] int predict(Parameters w, Image image);

}  // namespace mlp
