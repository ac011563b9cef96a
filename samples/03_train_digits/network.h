// The program that is trained: a network 64-64-10 with tanh, of which only the forward pass is
// written.
#pragma once

#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "digits.h"

/// The network's weights in a program, and what it makes of images.
struct Network {
  static constexpr int inputs = Digits::pixels, hidden = 64, classes = 10;

  coconet::Value w1, b1, w2, b2;

  Network(coconet::Program& program, coconet::DType dtype)
      : w1(program.state("w1", dtype, {inputs, hidden}, coconet::replicated)),
        b1(program.state("b1", dtype, {hidden}, coconet::replicated)),
        w2(program.state("w2", dtype, {hidden, classes}, coconet::replicated)),
        b2(program.state("b2", dtype, {classes}, coconet::replicated)) {}

  [[nodiscard]] std::vector<coconet::Value> weights() const { return {w1, b1, w2, b2}; }

  /// [images, 64] to [images, 10]
  [[nodiscard]] coconet::Value logits(const coconet::Value& images) const {
    // Smooth on purpose: with relu, the last bit of a sum decides whether a unit is on, and runs on
    // different numbers of ranks drift apart.
    const coconet::Value h = tanh(matmul(images, w1) + b1);
    return matmul(h, w2) + b2;
  }
};

/// An optimizer of coconet::programs with the learning rate that this sample gives it.
struct Optimizer {
  std::string name;
  double learning_rate;
  bool counts_steps;  ///< has the scalar `t`
  void (*add)(coconet::Program&, const std::vector<coconet::Value>& weights,
              const std::vector<coconet::Value>& gradients,
              const coconet::programs::ParameterOptions&);
};

/// Throws std::invalid_argument for an unknown one.
[[nodiscard]] const Optimizer& find_optimizer(const std::string& name);

/// A step of training on a batch [B, 64] that is divided over the ranks: images and labels, of
/// which -100 stands for none; the output `loss`, the mean over the batch.
[[nodiscard]] coconet::Program training_step(const coconet::Mesh& mesh, coconet::DType dtype,
                                             const Optimizer& optimizer);

/// The network's `logits` of images [B, 64].
[[nodiscard]] coconet::Program evaluation(const coconet::Mesh& mesh, coconet::DType dtype);
