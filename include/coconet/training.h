// What optimizers have in common: the dtypes of mixed precision, where parameters lie, and what
// training asks of any of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/export.h"
#include "coconet/program.h"

namespace coconet::programs {

/// In mixed precision, what the f32 weights that the optimizer works on, its master weights, are
/// kept as beside `w`.
enum class MasterWeights : std::uint8_t {
  copy,        ///< a state of their own, `master`: 4 bytes a parameter more
  remainders,  ///< what `w`, in bf16, lacks of them, in 16 bits: the state `remainder`, 2 bytes
               ///< more
  none         ///< nothing: `w`, in bf16, is widened, and what is written is rounded stochastically
};

/// The dtypes of an optimizer: one for all of it, or 16 bits for the model and f32 for what the
/// optimizer keeps.
struct Precision {
  DType model = DType::f32;   ///< of `g` and `w`, which move between ranks
  DType master = DType::f32;  ///< of the moments, and of the weights that the optimizer works on
  MasterWeights kept = MasterWeights::copy;  ///< in mixed precision
  std::uint64_t seed = 0;                    ///< of stochastic rounding, with MasterWeights::none

  /// One dtype for all.
  constexpr Precision(DType dtype) : model(dtype), master(dtype) {}  // NOLINT: implicit by design
  /// One for the model, another for the optimizer.
  constexpr Precision(DType model_dtype, DType master_dtype)
      : model(model_dtype), master(master_dtype) {}
  /// Whether these are two.
  [[nodiscard]] constexpr bool mixed() const { return model != master; }
};

/// Mixed precision (Micikevicius et al., 2018): `model` is f16 or bf16, with other master weights
/// than copies bf16. Throws ProgramError for another dtype.
[[nodiscard]] COCONET_API Precision mixed(DType model, MasterWeights kept = MasterWeights::copy,
                                          std::uint64_t seed = 0);

/// Where the parameters of a model, and their gradients, lie.
enum class Storage : std::uint8_t {
  whole,     ///< in one buffer each
  scattered  ///< over buffers, as a framework allocates them: compile with a ParameterLists for `n`
};

/// The constants of dynamic loss scaling, with the names and defaults of torch.amp.GradScaler.
struct LossScale {
  double init_scale = 65536;    ///< the scale before the first step; a positive number of f32
  double growth_factor = 2;     ///< what the scale is multiplied by when it grows (1, inf]
  double backoff_factor = 0.5;  ///< and where a gradient is not finite (0, 1)
  int growth_interval = 2000;   ///< steps taken in succession before it grows [1, 2^24]
};

/// What training asks of any optimizer beside its own formula: fields of the options of each.
struct TrainingOptions {
  /// Of the whole averaged gradient, which is scaled down to this norm as
  /// torch.nn.utils.clip_grad_norm_ does it. 0: it is not. [0, inf]
  double max_norm = 0;
  /// Of each element of the averaged gradient, as torch.nn.utils.clip_grad_value_, before its norm
  /// is taken. 0: any. [0, inf]
  double max_value = 0;
  /// An output `gradient_norm`, one number: the norm that `max_norm` is compared with, before
  /// anything is scaled down, as torch.nn.utils.clip_grad_norm_ returns it. In f32 at least.
  bool gradient_norm = false;
  /// Dynamic loss scaling as torch.amp.GradScaler does it. The application multiplies the loss by
  /// `scale`, a state of one f32, `loss_scale.init_scale` before the first step (where it may be 0,
  /// too). Gradients are divided by it. Where an element of the average is not finite, all ranks
  /// leave all other states as they are, and `scale` is multiplied by the backoff factor; after
  /// `growth_interval` steps without one, which `growth` counts, by the growth factor, unless that
  /// leaves f32. The optimizer's `t` is that of the steps taken: `skipped`, another state of one
  /// f32, counts those that were not, and is subtracted from the scalar `t`.
  bool loss_scaling = false;
  LossScale loss_scale = {};  ///< with loss_scaling
  /// Numbers for each buffer of `n` (Program::buffers), in the dtype of the moments, that the
  /// application writes before the first step: the inputs `lr_scale`, by which `lr` is multiplied,
  /// and `weight_decay`, which takes the place of the option of that name.
  bool groups = false;
  /// Gradients of several micro-batches in one step: `g` is a state, of the dtype of the moments,
  /// that holds each rank's sum of them, which the program of `accumulate` adds up. A scalar
  /// `microbatches` says how many they are: the average over the ranks is divided by it, before
  /// anything else is done to it.
  bool accumulation = false;
};

/// Dynamic loss scaling of a program that takes gradients; programs::loss_scaler makes it.
struct LossScaler {
  Value scale;          ///< what the loss is multiplied by
  Value state;          ///< `scale` as it is kept, 0 at first
  Value growth;         ///< a state: the steps taken since it grew
  Value skipped;        ///< a state: the steps that were not taken
  LossScale constants;  ///< with which it changes
};

/// Tensors that an optimizer treats in one way, as a parameter group of torch.optim.
struct ParameterGroup {
  std::string names;    ///< of the weights: a pattern, in which * stands for any characters
  double lr_scale = 1;  ///< by which their learning rate is multiplied [0, inf]
  std::optional<double> weight_decay = {};  ///< theirs, where it is not that of the options
};

/// What the step of an optimizer over tensors of a program takes beside the optimizer's options.
struct ParameterOptions {
  /// A weight is of the first group whose pattern its name is like, and of none where none is.
  std::vector<ParameterGroup> groups = {};
  /// Of weights of 16 bits; those of f32 and f64 are their own. Copies are states "w1.master",
  /// which the application sets to the weights' values before the first step. Moments are f32 at
  /// least.
  MasterWeights master_weights = MasterWeights::copy;
  /// Of stochastic rounding, with MasterWeights::none: of the i-th weight it is seed + i, so that
  /// another step needs one farther off.
  std::uint64_t seed = 0;
  /// What the loss was multiplied by, where it was: programs::loss_scaler makes it, for one step.
  std::optional<LossScaler> scaler = {};
};

}  // namespace coconet::programs
