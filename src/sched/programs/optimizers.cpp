// The optimizers of data-parallel training as programs. Formulas and defaults are those of torch.optim (2.x). No
// expression makes values in two of its operands: compilers may evaluate those in either order, and a program must
// be the same whoever compiled it.
#include <algorithm>

#include "coconet/programs.h"

namespace coconet::programs {

namespace {

constexpr std::int64_t default_n = 1 << 20;

/// What every optimizer starts from: parameters w, the gradient averaged over the ranks, and the learning rate.
struct Training {
  Program program;
  Dim n;
  Value g;
  Value w;
  Value lr;
  Value avg;

  Training(const char* name, const Mesh& mesh, DType dtype)
      : program(name, mesh),
        n(program.dim("n", default_n)),
        g(program.input("g", dtype, {n}, Layout::on({{axis_of(mesh), local}}))),
        w(program.state("w", dtype, {n}, replicated)),
        lr(program.scalar("lr")),
        avg(all_reduce(g, mean, axis_of(mesh)).named("avg")) {}

  /// The axis of data parallelism: "world", or the only one.
  static std::string axis_of(const Mesh& mesh) {
    return mesh.axes().size() == 1 ? mesh.axes().front().name : "world";
  }

  Value moment(const char* name) { return program.state(name, w.dtype(), {n}, replicated); }
};

/// The gradient with L2 regularisation, as Adam and SGD apply it.
Value regularised(const Value& gradient, const Value& w, double weight_decay) {
  return weight_decay == 0 ? gradient : gradient + weight_decay * w;
}

/// The update that Adam and AdamW share, of parameters `w` that may have been decayed already.
void adam_step(Training& training, const Value& gradient, const Value& w, double beta1,
               double beta2, double eps) {
  const Value m = training.moment("m");
  const Value v = training.moment("v");
  const Value t = training.program.scalar("t");
  const Value m_kept = beta1 * m;
  const Value m1 = update(m, m_kept + (1 - beta1) * gradient);
  const Value v_kept = beta2 * v;
  const Value v1 = update(v, v_kept + (1 - beta2) * gradient * gradient);
  const Value step_size = training.lr / (1 - pow(beta1, t));
  const Value root = sqrt(v1);
  const Value denominator = root / sqrt(1 - pow(beta2, t)) + eps;
  update(training.w, w - step_size * (m1 / denominator));
}

}  // namespace

Program sgd(const Mesh& mesh, DType dtype, SgdOptions options) {
  Training training("sgd", mesh, dtype);
  update(training.w,
         training.w - training.lr * regularised(training.avg, training.w, options.weight_decay));
  return training.program;
}

Program momentum_sgd(const Mesh& mesh, DType dtype, MomentumSgdOptions options) {
  Training training("momentum_sgd", mesh, dtype);
  const Value m = training.moment("m");
  const Value gradient = regularised(training.avg, training.w, options.weight_decay);
  const Value kept = options.momentum * m;
  // The first step takes the whole gradient, whatever the dampening is; t tells it from later ones.
  const Value fresh =
      options.dampening == 0
          ? gradient
          : select(equal(training.program.scalar("t"), 1), 1, 1 - options.dampening) * gradient;
  const Value m1 = update(m, kept + fresh);
  const Value direction = options.nesterov ? gradient + options.momentum * m1 : m1;
  update(training.w, training.w - training.lr * direction);
  return training.program;
}

Program adam(const Mesh& mesh, DType dtype, AdamOptions options) {
  Training training("adam", mesh, dtype);
  adam_step(training, regularised(training.avg, training.w, options.weight_decay), training.w,
            options.beta1, options.beta2, options.eps);
  return training.program;
}

Program adamw(const Mesh& mesh, DType dtype, AdamWOptions options) {
  Training training("adamw", mesh, dtype);
  const Value decayed = training.w * (1 - training.lr * options.weight_decay);
  adam_step(training, training.avg, decayed, options.beta1, options.beta2, options.eps);
  return training.program;
}

const std::vector<Shipped>& shipped() {
  static const std::vector<std::string_view> schedules = {"unfused", "sliced", "fused"};
  static const std::vector<Shipped> table = {
      {"sgd", "stochastic gradient descent", schedules,
       [](const Mesh& m, DType d) { return sgd(m, d); }},
      {"momentum_sgd", "SGD with momentum 0.9", schedules,
       [](const Mesh& m, DType d) { return momentum_sgd(m, d); }},
      {"adam", "Adam, betas 0.9 and 0.999", schedules,
       [](const Mesh& m, DType d) { return adam(m, d); }},
      {"adamw", "Adam with decoupled weight decay 0.01", schedules,
       [](const Mesh& m, DType d) { return adamw(m, d); }},
  };
  return table;
}

const Shipped* find(std::string_view name) {
  const auto found = std::find_if(shipped().begin(), shipped().end(),
                                  [&](const Shipped& program) { return program.name == name; });
  return found == shipped().end() ? nullptr : &*found;
}

}  // namespace coconet::programs
