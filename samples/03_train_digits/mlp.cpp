// Forward and backward pass of the network, one image at a time.
#include "mlp.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace mlp {
namespace {

struct Activations {
  std::array<float, hidden> h;
  std::array<float, outputs> logits;
};

/// out = matrix * in + bias
template <std::size_t rows, std::size_t columns>
void affine(const float* matrix, const float* bias, const float* in, float* out) {
  for (std::size_t r = 0; r < rows; ++r) {
    float sum = bias[r];
    for (std::size_t c = 0; c < columns; ++c) sum += matrix[r * columns + c] * in[c];
    out[r] = sum;
  }
}

Activations forward(Parameters w, Image image) {
  Activations a;
  affine<hidden, inputs>(&w[weights1], &w[biases1], image.data(), a.h.data());
  // Smooth on purpose: with relu, the last bit of a sum decides whether a unit is on, and runs on
  // different numbers of ranks drift apart.
  for (float& x : a.h) x = std::tanh(x);
  affine<outputs, hidden>(&w[weights2], &w[biases2], a.h.data(), a.logits.data());
  return a;
}

void fill_uniform(std::span<float> values, std::size_t fan_in, std::size_t fan_out,
                  std::mt19937& random) {
  const double limit = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
  for (float& value : values) {
    const double unit = static_cast<double>(random()) / 4294967296.0;  // in [0, 1)
    value = static_cast<float>(limit * (2.0 * unit - 1.0));
  }
}

}  // namespace

void initialise(std::span<float> w) {
  std::mt19937 random(2022);
  std::ranges::fill(w, 0.0f);
  fill_uniform(w.subspan(weights1, hidden * inputs), inputs, hidden, random);
  fill_uniform(w.subspan(weights2, outputs * hidden), hidden, outputs, random);
}

double add_gradient(Parameters w, Image image, int label, std::span<double> gradient) {
  const Activations a = forward(w, image);

  // Softmax, shifted by the largest logit so that exp cannot overflow.
  const float largest = *std::ranges::max_element(a.logits);
  std::array<float, outputs> delta{};  // d loss / d logits = softmax - onehot
  float total = 0;
  for (std::size_t o = 0; o < outputs; ++o) total += delta[o] = std::exp(a.logits[o] - largest);
  const auto target = static_cast<std::size_t>(label);
  const double loss = std::log(total) - (a.logits[target] - largest);
  for (float& d : delta) d /= total;
  delta[target] -= 1.0f;

  std::array<float, hidden> back{};  // d loss / d h, then d loss / d (input of tanh)
  for (std::size_t o = 0; o < outputs; ++o) {
    gradient[biases2 + o] += delta[o];
    for (std::size_t j = 0; j < hidden; ++j) {
      gradient[weights2 + o * hidden + j] += delta[o] * a.h[j];
      back[j] += delta[o] * w[weights2 + o * hidden + j];
    }
  }
  for (std::size_t j = 0; j < hidden; ++j) {
    back[j] *= 1.0f - a.h[j] * a.h[j];
    gradient[biases1 + j] += back[j];
    for (std::size_t i = 0; i < inputs; ++i)
      gradient[weights1 + j * inputs + i] += back[j] * image[i];
  }
  return loss;
}

int predict(Parameters w, Image image) {
  const Activations a = forward(w, image);
  return static_cast<int>(std::ranges::max_element(a.logits) - a.logits.begin());
}

}  // namespace mlp
