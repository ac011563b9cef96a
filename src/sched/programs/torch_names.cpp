// What PyTorch calls the states of the shipped optimizers.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "coconet/error.h"
#include "coconet/programs.h"

namespace coconet::programs {

namespace {

/// A state here, and in PyTorch.
struct Name {
  std::string_view optimizer;  ///< empty: any
  std::string_view state;
  std::string_view torch;
};

/// As torch.optim 2.x makes them in _init_group; Lion's as in its authors' lion_pytorch.py, LAMB's
/// and NovoGrad's as in NVIDIA's apex, LARS' as in timm. Of every optimizer the step, the
/// parameters, and what torch.amp.GradScaler.state_dict has.
constexpr Name names[] = {
    {"momentum_sgd", "m", "momentum_buffer"},
    {"adam", "m", "exp_avg"},
    {"adam", "v", "exp_avg_sq"},
    {"adam", "v_max", "max_exp_avg_sq"},
    {"adamw", "m", "exp_avg"},
    {"adamw", "v", "exp_avg_sq"},
    {"adamw", "v_max", "max_exp_avg_sq"},
    {"adamax", "m", "exp_avg"},
    {"adamax", "u", "exp_inf"},
    {"nadam", "m", "exp_avg"},
    {"nadam", "v", "exp_avg_sq"},
    {"radam", "m", "exp_avg"},
    {"radam", "v", "exp_avg_sq"},
    {"adagrad", "v", "sum"},
    {"adadelta", "v", "square_avg"},
    {"adadelta", "d", "acc_delta"},
    {"rmsprop", "v", "square_avg"},
    {"rmsprop", "m", "momentum_buffer"},
    {"rmsprop", "mean", "grad_avg"},
    {"rprop", "previous", "prev"},
    {"rprop", "step_size", "step_size"},
    {"lion", "m", "exp_avg"},
    {"lamb", "m", "exp_avg"},
    {"lamb", "v", "exp_avg_sq"},
    {"lars", "m", "momentum_buffer"},
    {"novograd", "m", "exp_avg"},
    {"novograd", "v", "exp_avg_sq"},
    {"", "w", "param"},
    {"", "master", "master_param"},
    {"", "remainder", "param_remainder"},
    {"", "scale", "scale"},
    {"", "growth", "_growth_tracker"},
    {"", "skipped", "skipped"},
    {"", "t", "step"},
};

}  // namespace

std::string_view torch_name(std::string_view optimizer, std::string_view state) {
  constexpr std::string_view scattered = "_scattered";
  std::string_view plain = optimizer;
  if (plain.ends_with(scattered)) plain.remove_suffix(scattered.size());
  const Shipped* const shipped = find(plain);
  if (shipped == nullptr || shipped->with == nullptr) {
    throw ProgramError(fmt::format(
        "torch_name: no optimizer that ships is called '{}'; see programs::shipped", optimizer));
  }
  std::string known;
  for (const Name& one : names) {
    if (!one.optimizer.empty() && one.optimizer != plain) continue;
    if (one.state == state) return one.torch;
    known += (known.empty() ? "" : ", ") + std::string(one.state);
  }
  throw ProgramError(
      fmt::format("torch_name: {} has no '{}' with a name in PyTorch; names are "
                  "there for {}",
                  optimizer, state, known));
}

}  // namespace coconet::programs
