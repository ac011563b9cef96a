// The programs of the sample.
#include "network.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

using namespace coconet;

const Optimizer& find_optimizer(const std::string& name) {
  using Values = std::vector<Value>;
  using Options = programs::ParameterOptions;
  static const std::array<Optimizer, 4> optimizers = {{
      {"sgd", 0.5, false,
       [](Program& p, const Values& weights, const Values& gradients, const Options& options) {
         programs::sgd(p, weights, gradients, {}, options);
       }},
      {"momentum_sgd", 0.1, false,
       [](Program& p, const Values& weights, const Values& gradients, const Options& options) {
         programs::momentum_sgd(p, weights, gradients, {}, options);
       }},
      {"adam", 5e-3, true,
       [](Program& p, const Values& weights, const Values& gradients, const Options& options) {
         programs::adam(p, weights, gradients, {}, options);
       }},
      {"adamw", 5e-3, true,
       [](Program& p, const Values& weights, const Values& gradients, const Options& options) {
         programs::adamw(p, weights, gradients, {}, options);
       }},
  }};
  const auto* found = std::ranges::find(optimizers, name, &Optimizer::name);
  if (found == optimizers.end()) {
    throw std::invalid_argument("no optimizer is called " + name +
                                "; there are sgd, momentum_sgd, adam and adamw");
  }
  return *found;
}

Program training_step(const Mesh& mesh, DType dtype, const Optimizer& optimizer) {
  Program program("train_digits", mesh);
  const Dim batch = program.dim("B");
  const Network network(program, dtype);
  const Value images = program.input("images", dtype, {batch, Network::inputs}, sliced(0));
  const Value labels = program.input("labels", i32, {batch}, sliced(0));

  const Value loss = cross_entropy(network.logits(images), labels);
  program.output("loss", loss);
  programs::ParameterOptions options;
  // Small gradients would be 0 in f16.
  if (dtype == f16) options.scaler = programs::loss_scaler(program);
  const Value scaled = options.scaler ? loss * options.scaler->scale : loss;
  optimizer.add(program, network.weights(), gradients(scaled, network.weights()), options);
  return program;
}

Program evaluation(const Mesh& mesh, DType dtype) {
  Program program("test_digits", mesh);
  const Dim batch = program.dim("B");
  const Network network(program, dtype);
  const Value images = program.input("images", dtype, {batch, Network::inputs}, replicated);
  program.output("logits", network.logits(images));
  return program;
}
