// Programs that ship with the library: the optimizers of data-parallel training, with PyTorch's
// hyperparameters, and the blocks of model- and pipeline-parallel transformers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "coconet/export.h"
#include "coconet/program.h"
#include "coconet/shipped.h"
#include "coconet/training.h"

namespace coconet::programs {

// Every optimizer has an input `g` [n] (local: this rank's gradient), a state `w` [n] (replicated:
// the parameters) and a scalar `lr`. `n` defaults to 2^20. The gradient is averaged over the only
// axis of the mesh, or the axis "world"; of a mesh with the axes "node" and "gpu" and no "world",
// over "gpu" and then over "node". Schedules: unfused, sliced and fused, and for those two axes
// hierarchical.
//
// In mixed precision, as `adam(mesh, mixed(f16))`, there is a further state `master` [n], f32: the
// parameters that the optimizer updates, of which `w` is the rounded copy that the model computes
// with. The application sets `master` to the values of `w` before the first step. Gradients are
// averaged in the model's dtype, as they move between ranks, and widened; moments are f32. Name and
// schedules are those of one dtype.
//
// `mixed(bf16, MasterWeights::remainders)` computes the same in 2 bytes a parameter less: instead
// of `master` there is a state `remainder` [n], i16, zero before the first step, and the master
// weights are join_halves(w, remainder). `w` is rounded to nearest with ties away from zero, not to
// even. `mixed(bf16, MasterWeights::none)` keeps `w` alone: stochastic_cast writes it, with the
// precision's seed and the scalar `t`, which every optimizer then has, as the offset. Whatever the
// schedule and the number of ranks, a weight is rounded by the same random number.
//
// With Storage::scattered, `g` and `w` are scattered over the buffers of the dimension `n`. The
// optimizer's other states, moments and `master`, are tensors [n] in the order of the buffers, each
// in one buffer; a rank holds its slice of them under the schedules that keep them sliced. The
// program is called `adam_scattered`; the schedules are the same.
//
// Hyperparameters are checked as torch.optim checks them: one out of its range is a ProgramError
// that names the optimizer, the hyperparameter, its value and the range. Ranges are given in
// brackets below; [0, 1) has 0 and not 1. States start at zero, as the library makes them.

/// torch.optim.SGD without momentum: w -= lr * (g + weight_decay * w).
struct SgdOptions {
  double weight_decay = 0;     ///< added to the gradient, times the weight [0, inf]
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// torch.optim.SGD(momentum=...): a further state `m` [n], zero before the first step.
struct MomentumSgdOptions {
  double momentum = 0.9;       ///< of `m`, what it keeps in a step [0, inf]
  double dampening = 0;        ///< of the gradient, what `m` does not get
  double weight_decay = 0;     ///< added to the gradient, times the weight [0, inf]
  bool nesterov = false;       ///< whether the step looks ahead along `m`; takes no dampening
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// torch.optim.Adam: states `m` and `v` [n], scalar `t` (the step number, from 1). Kingma & Ba,
/// 2015.
struct AdamOptions {
  double beta1 = 0.9;       ///< of `m`, the mean of gradients, what it keeps in a step [0, 1)
  double beta2 = 0.999;     ///< of `v`, the mean of their squares, likewise [0, 1)
  double eps = 1e-8;        ///< added to the root of `v` [0, inf]
  double weight_decay = 0;  ///< added to the gradient, times the weight [0, inf]
  /// Whether the step is divided by the root of the largest `v` so far, a further state `v_max`
  /// [n]. Reddi, Kale & Kumar, 2018.
  bool amsgrad = false;
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// torch.optim.AdamW: like adam with decoupled weight decay. Loshchilov & Hutter, 2019.
struct AdamWOptions {
  double beta1 = 0.9;          ///< of `m`, the mean of gradients, what it keeps in a step [0, 1)
  double beta2 = 0.999;        ///< of `v`, the mean of their squares, likewise [0, 1)
  double eps = 1e-8;           ///< added to the root of `v` [0, inf]
  double weight_decay = 0.01;  ///< taken off the weight, times it and the learning rate [0, inf]
  bool amsgrad = false;        ///< as in AdamOptions
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// torch.optim.Adamax: states `m` and `u` [n], the largest of decayed gradients, scalar `t` (the
/// step number, from 1). Kingma & Ba, 2015, section 7.
struct AdamaxOptions {
  double beta1 = 0.9;          ///< of `m`, the mean of gradients, what it keeps in a step [0, 1)
  double beta2 = 0.999;        ///< of `u`, likewise [0, 1)
  double eps = 1e-8;           ///< added to the gradient's absolute value [0, inf]
  double weight_decay = 0;     ///< added to the gradient, times the weight [0, inf]
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// torch.optim.NAdam: Adam with Nesterov's momentum. States and scalars as adam. Dozat, 2016. The
/// product of all momenta so far, which PyTorch keeps as a state, is computed from `t`.
struct NAdamOptions {
  double beta1 = 0.9;                   ///< of `m`, what it keeps in a step [0, 1)
  double beta2 = 0.999;                 ///< of `v`, likewise [0, 1)
  double eps = 1e-8;                    ///< added to the root of `v` [0, inf]
  double weight_decay = 0;              ///< added to the gradient, times the weight [0, inf]
  double momentum_decay = 0.004;        ///< how fast the momentum grows towards beta1 [0, inf]
  bool decoupled_weight_decay = false;  ///< whether weights decay as those of adamw
  double max_norm = 0;                  ///< as in TrainingOptions
  double max_value = 0;                 ///< likewise
  bool gradient_norm = false;           ///< likewise
  bool loss_scaling = false;            ///< likewise
  LossScale loss_scale = {};            ///< likewise
  bool groups = false;                  ///< likewise
  bool accumulation = false;            ///< likewise
};

/// torch.optim.RAdam: Adam that leaves `v` out of the first steps, where its variance is too large.
/// States and scalars as adam. Liu et al., 2020.
struct RAdamOptions {
  double beta1 = 0.9;                   ///< of `m`, what it keeps in a step [0, 1)
  double beta2 = 0.999;                 ///< of `v`, likewise [0, 1)
  double eps = 1e-8;                    ///< added to the root of `v` [0, inf]
  double weight_decay = 0;              ///< added to the gradient, times the weight [0, inf]
  bool decoupled_weight_decay = false;  ///< whether weights decay as those of adamw
  double max_norm = 0;                  ///< as in TrainingOptions
  double max_value = 0;                 ///< likewise
  bool gradient_norm = false;           ///< likewise
  bool loss_scaling = false;            ///< likewise
  LossScale loss_scale = {};            ///< likewise
  bool groups = false;                  ///< likewise
  bool accumulation = false;            ///< likewise
};

/// torch.optim.Adagrad: a state `v` [n], the sum of the squares of gradients. A scalar `t` (the
/// step number, from 1) where an option needs it. Duchi, Hazan & Singer, 2011.
struct AdagradOptions {
  double lr_decay = 0;                   ///< lr is divided by 1 + (t - 1) * lr_decay [0, inf]
  double weight_decay = 0;               ///< added to the gradient, times the weight [0, inf]
  double initial_accumulator_value = 0;  ///< what the first step, t = 1, adds to `v` [0, inf]
  double eps = 1e-10;                    ///< added to the root of `v` [0, inf]
  double max_norm = 0;                   ///< as in TrainingOptions
  double max_value = 0;                  ///< likewise
  bool gradient_norm = false;            ///< likewise
  bool loss_scaling = false;             ///< likewise
  LossScale loss_scale = {};             ///< likewise
  bool groups = false;                   ///< likewise
  bool accumulation = false;             ///< likewise
};

/// torch.optim.Adadelta: states `v` and `d` [n], the means of the squares of gradients and of
/// steps. PyTorch's `lr` is 1 where none is given. Zeiler, 2012.
struct AdadeltaOptions {
  double rho = 0.9;            ///< of `v` and `d`, what they keep in a step [0, 1]
  double eps = 1e-6;           ///< added to them below the roots [0, inf]
  double weight_decay = 0;     ///< added to the gradient, times the weight [0, inf]
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// torch.optim.RMSprop: a state `v` [n], the mean of the squares of gradients; `m` [n] with
/// momentum, and `mean` [n], that of gradients, when it is centered. Hinton's lecture 6, 2012, and
/// Graves, 2013.
struct RmspropOptions {
  double alpha = 0.99;         ///< of `v` and `mean`, what they keep in a step [0, inf]
  double eps = 1e-8;           ///< added to the root [0, inf]
  double weight_decay = 0;     ///< added to the gradient, times the weight [0, inf]
  double momentum = 0;         ///< of `m`, what it keeps in a step [0, inf]
  bool centered = false;       ///< whether the root is of the variance, v - mean * mean
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// torch.optim.Rprop: states `previous` [n], the last gradient, and `step_size` [n], which the
/// first step, t = 1, sets to `lr`; later ones do not read `lr`. Scalar `t` (the step number, from
/// 1). Riedmiller & Braun, 1993.
struct RpropOptions {
  double eta_minus = 0.5;       ///< of `step_size`, where the gradient changes its sign (0, 1)
  double eta_plus = 1.2;        ///< of `step_size`, where it keeps it (1, inf]
  double step_size_min = 1e-6;  ///< the least of `step_size` [0, step_size_max]
  double step_size_max = 50;    ///< and the largest
  double max_norm = 0;          ///< as in TrainingOptions
  double max_value = 0;         ///< likewise
  bool gradient_norm = false;   ///< likewise
  bool loss_scaling = false;    ///< likewise
  LossScale loss_scale = {};    ///< likewise
  bool groups = false;          ///< likewise
  bool accumulation = false;    ///< likewise
};

/// Lion, which torch.optim does not have: a state `m` [n], and
///   w -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * w),
///   m = beta2 * m + (1 - beta2) * g.
/// Chen et al., 2023, "Symbolic Discovery of Optimization Algorithms", with its defaults.
struct LionOptions {
  double beta1 = 0.9;          ///< what the step keeps of `m` [0, 1)
  double beta2 = 0.99;         ///< of `m`, what it keeps in a step [0, 1)
  double weight_decay = 0;     ///< taken off the weight, times it and the learning rate [0, inf]
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// LAMB, by layer where parameters are scattered: norms are of each buffer, or of a whole tensor.
/// States and scalars as adam. With Adam's bias-corrected moments and
///   u = m / (sqrt(v) + eps) + weight_decay * w,   w -= lr * |w| / |u| * u
/// where a ratio with a norm of zero is 1. You et al., 2020, algorithm 2, whose function of |w| is
/// the identity. Norms are computed in f32 at least.
struct LambOptions {
  double beta1 = 0.9;          ///< of `m`, the mean of gradients, what it keeps in a step [0, 1)
  double beta2 = 0.999;        ///< of `v`, the mean of their squares, likewise [0, 1)
  double eps = 1e-6;           ///< added to the root of `v` [0, inf]
  double weight_decay = 0.01;  ///< added to the update, times the weight [0, inf]
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

/// LARS, by layer where parameters are scattered, as lamb: state `m` [n]. With
///   r = trust_coefficient * |w| / (|g| + weight_decay * |w|),
///   m = momentum * m + lr * r * (g + weight_decay * w),   w -= m
/// where the ratio r with a norm of zero is 1. You, Gitman & Ginsburg, 2017, algorithm 1. Norms are
/// computed in f32 at least.
struct LarsOptions {
  double momentum = 0.9;             ///< of `m`, what it keeps in a step [0, inf]
  double weight_decay = 0.0005;      ///< added to the gradient, times the weight [0, inf]
  double trust_coefficient = 0.001;  ///< of the ratio of norms [0, inf]
  double max_norm = 0;               ///< as in TrainingOptions
  double max_value = 0;              ///< likewise
  bool gradient_norm = false;        ///< likewise
  bool loss_scaling = false;         ///< likewise
  LossScale loss_scale = {};         ///< likewise
  bool groups = false;               ///< likewise
  bool accumulation = false;         ///< likewise
};

/// NovoGrad, by layer where parameters are scattered: state `m` [n], and `v`, one number for a
/// whole tensor or for each buffer; scalar `t` (the step number, from 1). With
///   v = beta2 * v + (1 - beta2) * |g|^2, at first |g|^2,
///   m = beta1 * m + g / (sqrt(v) + eps) + weight_decay * w,   w -= lr * m
/// Ginsburg et al., 2019, algorithm 1. `v` is f32 at least.
struct NovoGradOptions {
  double beta1 = 0.95;         ///< of `m`, what it keeps in a step [0, 1)
  double beta2 = 0.98;         ///< of `v`, likewise [0, 1)
  double eps = 1e-8;           ///< added to the root of `v` [0, inf]
  double weight_decay = 0;     ///< added to the direction, times the weight [0, inf]
  double max_norm = 0;         ///< as in TrainingOptions
  double max_value = 0;        ///< likewise
  bool gradient_norm = false;  ///< likewise
  bool loss_scaling = false;   ///< likewise
  LossScale loss_scale = {};   ///< likewise
  bool groups = false;         ///< likewise
  bool accumulation = false;   ///< likewise
};

// Of each optimizer there are two functions, here for AdamWOptions:
//
//     Program adamw(const Mesh& mesh, Precision precision = f32, AdamWOptions options = {},
//                   Storage storage = Storage::whole);
//
// makes the program that is described above, with one tensor `w` and one gradient `g`;
//
//     std::vector<Value> adamw(Program& program, const std::vector<Value>& weights,
//                              const std::vector<Value>& gradients,
//                              const AdamWOptions& options = {},
//                              const ParameterOptions& parameters = {});
//
// adds the step over any number of tensors to a program that computes their gradients, as
// `coconet::gradients` does. `weights` are states of floats of any shapes, whole or scattered,
// replicated or sliced, and `gradients` have their shapes and layouts: complete, so nothing is
// averaged. What is above a state [n] of the optimizer is one like each weight, called by that
// weight's name, "w1.m"; weights of 16 bits have master weights, as ParameterOptions says. `lr`,
// `t` and `microbatches` are scalars of the program, made where it has none. Norms of `max_norm`
// and `gradient_norm` are of all gradients together, those of lamb, lars and novograd of each
// tensor. Returned is what each weight is after the step. Throws ProgramError that names the weight
// or the gradient that is wrong, and then the program is as it was.
#define COCONET_OPTIMIZER(name, Options, summary)                                                 \
  [[nodiscard]] COCONET_API Program name(const Mesh& mesh, Precision precision = DType::f32,      \
                                         Options options = {}, Storage storage = Storage::whole); \
  COCONET_API std::vector<Value> name(                                                            \
      Program& program, const std::vector<Value>& weights, const std::vector<Value>& gradients,   \
      const Options& options = {}, const ParameterOptions& parameters = {});
#include "coconet/optimizers.def"
#undef COCONET_OPTIMIZER

/// Adds dynamic loss scaling to `program`: the states `scale`, `growth` and `skipped` of
/// TrainingOptions::loss_scaling. The loss is multiplied by the result's `scale` before its
/// gradients are taken, and the optimizer takes the result as ParameterOptions::scaler. Throws
/// ProgramError for a constant out of its range.
[[nodiscard]] COCONET_API LossScaler loss_scaler(Program& program, const LossScale& constants = {});

/// Adds up the gradients of micro-batches in a program that computes them: for each a state of the
/// gradient's name and ".sum", in f32 at least and laid out as it is, and a scalar `first` as
/// below. Returned are the sums with this micro-batch, which an optimizer with
/// TrainingOptions::accumulation takes, here or, as states of these names, in another program that
/// shares them. Gradients that are each rank's own, as those of `as_local(w)`, need an all_reduce
/// once a step only.
COCONET_API std::vector<Value> accumulate(Program& program, const std::vector<Value>& gradients);

/// Adds the gradient of a micro-batch to the sum `g` of an optimizer with
/// TrainingOptions::accumulation, of the same precision and storage: an input `gradient` [n]
/// (local, of the model's dtype), the state `g` [n] (local, of the moments' dtype) and a scalar
/// `first`, which is 1 for the first micro-batch of a step, where the sum begins anew whatever `g`
/// holds, and 0 for the others. The optimizer's executable owns `g`:
///
///     adding.share_states(step);
///     for (int i = 0; i < k; ++i) ...  adding.run({{"first", i == 0}});
///     step.run({{"lr", 1e-3}, {"t", t}, {"microbatches", k}});
///
/// No schedule is needed. `n` must have the extent, or the lengths, that it has in the optimizer.
[[nodiscard]] COCONET_API Program accumulate(const Mesh& mesh, Precision precision = DType::f32,
                                             Storage storage = Storage::whole);

/// What torch.optim's state_dict (PyTorch 2.x) calls a state of a shipped optimizer: "exp_avg" for
/// the `m` of "adam". `optimizer` is a shipped name, or a Program::name with "_scattered", on which
/// the names do not depend. For what PyTorch keeps elsewhere, `w` is "param", `master`
/// "master_param"; `scale` and `growth` are "scale" and "_growth_tracker", as in GradScaler's
/// state_dict, and `skipped` keeps its name. Lion's, LAMB's, LARS' and NovoGrad's are those of
/// their reference implementations: "exp_avg", "exp_avg_sq" and "momentum_buffer".
///
/// The scalar `t` is "step". Throws ProgramError for another optimizer, and for a state that it has
/// not, also for the sum `g` of gradients, which no state_dict holds.
[[nodiscard]] COCONET_API std::string_view torch_name(std::string_view optimizer,
                                                      std::string_view state);

/// The state "mu_product" of torch.optim.NAdam after `t` steps, the product of their momenta, which
/// `nadam` computes from `t` and does not keep.
[[nodiscard]] COCONET_API double nadam_mu_product(std::int64_t t, const NAdamOptions& options = {});

// The blocks of a transformer whose layers are divided over the ranks of the mesh axis "tp", or of
// the only axis (Megatron-LM, Shoeybi et al., 2019): out = dropout(all_reduce(y) + b) + r, where
// `y` is what a rank has of the layer's result. All tensors are inputs but `out` [B, S, H], an
// output; `b` [H] is the bias, `r` [B, S, H] the residual, and the scalar `t`, a whole number such
// as the number of the step, chooses the mask of the dropout. Dimensions: batch `B`, sequence `S`,
// hidden `H`. Schedules: unfused, sliced, fused and overlapped.

/// The dropout of a transformer's block.
struct BlockOptions {
  double dropout = 0.1;    ///< probability of a zero
  std::uint64_t seed = 1;  ///< of the masks
};

/// The end of an MLP: y = matmul(x, w), `x` [B, S, F] sliced on F, `w` [F, H] sliced on F; `F`, by
/// default 4 x 768, is the width of the inner layer.
[[nodiscard]] COCONET_API Program mlp_block(const Mesh& mesh, DType dtype = DType::f32,
                                            BlockOptions options = {});

/// The end of self-attention: y = matmul(x, w), `x` [B, S, H] sliced on H, `w` [H, H] sliced on its
/// rows.
[[nodiscard]] COCONET_API Program attention_block(const Mesh& mesh, DType dtype = DType::f32,
                                                  BlockOptions options = {});

/// The hand-off between the stages of a pipeline, along the mesh axis "pp", each divided along
/// "tp": y = `x` [B, S, H], local, and `out` is what the stage before has computed, zeros on the
/// first one. `b` and `r` are each stage's own.
[[nodiscard]] COCONET_API Program pipeline_block(const Mesh& mesh, DType dtype = DType::f32,
                                                 BlockOptions options = {});

}  // namespace coconet::programs
