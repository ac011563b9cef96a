// SGD and the Adam family as programs. Formulas and defaults are those of torch.optim (2.x).
#include "sched/programs/training.h"

namespace coconet::programs {

namespace {

/// The gradient with L2 regularisation, as Adam and SGD apply it.
Value regularised(const Training& training, double weight_decay) {
  return weight_decay == 0 ? training.gradient
                           : training.gradient + weight_decay * training.parameters;
}

/// The update that Adam and AdamW share, of `parameters` that may have been decayed already.
void adam_step(Training& training, const Value& gradient, const Value& parameters, double beta1,
               double beta2, double eps) {
  const Moments moments = update_moments(training, gradient, beta1, beta2);
  const Value step_size = training.lr / (1 - pow(beta1, moments.t));
  const Value denominator = adam_denominator(moments, beta2, eps);
  training.finish(parameters - step_size * (moments.m / denominator));
}

}  // namespace

Program sgd(const Mesh& mesh, Precision precision, SgdOptions options, Storage storage) {
  Training training("sgd", mesh, precision, storage);
  training.finish(training.parameters - training.lr * regularised(training, options.weight_decay));
  return training.program;
}

Program momentum_sgd(const Mesh& mesh, Precision precision, MomentumSgdOptions options,
                     Storage storage) {
  Training training("momentum_sgd", mesh, precision, storage);
  const Value m = training.moment("m");
  const Value gradient = regularised(training, options.weight_decay);
  const Value kept = options.momentum * m;
  // The first step takes the whole gradient, whatever the dampening is; t tells it from later ones.
  const Value fresh =
      options.dampening == 0
          ? gradient
          : select(equal(training.program.scalar("t"), 1), 1, 1 - options.dampening) * gradient;
  const Value m1 = update(m, kept + fresh);
  const Value direction = options.nesterov ? gradient + options.momentum * m1 : m1;
  training.finish(training.parameters - training.lr * direction);
  return training.program;
}

Program adam(const Mesh& mesh, Precision precision, AdamOptions options, Storage storage) {
  Training training("adam", mesh, precision, storage);
  adam_step(training, regularised(training, options.weight_decay), training.parameters,
            options.beta1, options.beta2, options.eps);
  return training.program;
}

Program adamw(const Mesh& mesh, Precision precision, AdamWOptions options, Storage storage) {
  Training training("adamw", mesh, precision, storage);
  const Value decayed = training.parameters * (1 - training.lr * options.weight_decay);
  adam_step(training, training.gradient, decayed, options.beta1, options.beta2, options.eps);
  return training.program;
}

}  // namespace coconet::programs
