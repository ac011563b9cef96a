// Programs that ship with the library: the optimizers of data-parallel training, with PyTorch's hyperparameters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/export.h"
#include "coconet/program.h"

namespace coconet::programs {

// Every program has an input `g` [n] (local: this rank's gradient, averaged over the mesh axis "world"), a state
// `w` [n] (replicated: the parameters) and a scalar `lr`. `n` defaults to 2^20. Schedules: unfused, sliced, fused.

/// torch.optim.SGD without momentum: w -= lr * (g + weight_decay * w).
struct SgdOptions {
  double weight_decay = 0;
};
[[nodiscard]] COCONET_API Program sgd(const Mesh& mesh, DType dtype = DType::f32,
                                      SgdOptions options = {});

/// torch.optim.SGD(momentum=...): a further state `m` [n], zero before the first step.
struct MomentumSgdOptions {
  double momentum = 0.9;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
[[nodiscard]] COCONET_API Program momentum_sgd(const Mesh& mesh, DType dtype = DType::f32,
                                               MomentumSgdOptions options = {});

/// torch.optim.Adam: states `m` and `v` [n], scalar `t` (the step number, from 1). Kingma & Ba, 2015.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};
[[nodiscard]] COCONET_API Program adam(const Mesh& mesh, DType dtype = DType::f32,
                                       AdamOptions options = {});

/// torch.optim.AdamW: like adam with decoupled weight decay. Loshchilov & Hutter, 2019.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};
[[nodiscard]] COCONET_API Program adamw(const Mesh& mesh, DType dtype = DType::f32,
                                        AdamWOptions options = {});

/// A shipped program and its schedules. `Schedule::load(name + "-" + schedule + ".json")` loads one.
struct Shipped {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> schedules;
  Program (*build)(const Mesh& mesh, DType dtype);
};
[[nodiscard]] COCONET_API const std::vector<Shipped>& shipped();

/// The shipped program called `name`, or null.
[[nodiscard]] COCONET_API const Shipped* find(std::string_view name);

}  // namespace coconet::programs
