// Options of the shipped optimizers: their ranges and defaults, and PyTorch's names of states.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "coconet/programs.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "precisions.h"
#include "sched/subjects.h"

using namespace coconet;

namespace {

#define COCONET_OPTIMIZER(name, Options, summary)     \
  Program made(const programs::Options& options) {    \
    return programs::name(two_ranks(), f32, options); \
  }
#include "coconet/optimizers.def"
#undef COCONET_OPTIMIZER

}  // namespace

TEST_CASE("hyperparameters that torch.optim refuses are refused with their range") {
  const auto of = [](const auto& options) { return refusal([&] { (void)made(options); }); };
  CHECK(of(programs::SgdOptions{-1}) == "sgd: weight_decay is -1; it must be 0 or more");
  CHECK(of(programs::MomentumSgdOptions{.momentum = -0.5}) ==
        "momentum_sgd: momentum is -0.5; it must be 0 or more");
  for (const auto& [momentum, dampening] : {std::pair{0.0, 0.0}, std::pair{0.9, 0.1}}) {
    const std::string expected = momentum == 0 ? "0 and 0" : "0.9 and 0.1";
    CHECK(of(programs::MomentumSgdOptions{momentum, dampening, 0, true}) ==
          "momentum_sgd: nesterov is for a momentum above 0 with no dampening; they are " +
              expected);
  }
  CHECK(of(programs::AdamOptions{.beta1 = 1}) == "adam: beta1 is 1; it must be in [0, 1)");
  CHECK(of(programs::AdamOptions{.beta1 = std::nan("")}) ==
        "adam: beta1 is nan; it must be in [0, 1)");
  CHECK(of(programs::AdamWOptions{.beta2 = -0.1}) == "adamw: beta2 is -0.1; it must be in [0, 1)");
  CHECK(of(programs::AdamaxOptions{.eps = -1e-8}) == "adamax: eps is -1e-08; it must be 0 or more");
  CHECK(of(programs::NAdamOptions{.momentum_decay = -1}) ==
        "nadam: momentum_decay is -1; it must be 0 or more");
  CHECK(of(programs::RAdamOptions{.beta2 = 1}) == "radam: beta2 is 1; it must be in [0, 1)");
  CHECK(of(programs::AdagradOptions{.lr_decay = -1}) ==
        "adagrad: lr_decay is -1; it must be 0 or more");
  CHECK(of(programs::AdagradOptions{.initial_accumulator_value = -1}) ==
        "adagrad: initial_accumulator_value is -1; it must be 0 or more");
  CHECK(of(programs::AdadeltaOptions{.rho = 1.5}) == "adadelta: rho is 1.5; it must be in [0, 1]");
  CHECK_NOTHROW(made(programs::AdadeltaOptions{.rho = 1}));
  CHECK(of(programs::RmspropOptions{.alpha = -0.1}) ==
        "rmsprop: alpha is -0.1; it must be 0 or more");
  CHECK(of(programs::RpropOptions{.eta_minus = 1}) ==
        "rprop: eta_minus is 1; it must be in (0, 1)");
  CHECK(of(programs::RpropOptions{.eta_plus = 1}) ==
        "rprop: eta_plus is 1; it must be more than 1");
  CHECK(of(programs::RpropOptions{.step_size_min = 2, .step_size_max = 1}) ==
        "rprop: step_size_min is 2; it must be at most step_size_max, 1");
  CHECK(of(programs::LionOptions{.weight_decay = -1}) ==
        "lion: weight_decay is -1; it must be 0 or more");
  CHECK(of(programs::LambOptions{.beta1 = 1}) == "lamb: beta1 is 1; it must be in [0, 1)");
  CHECK(of(programs::LarsOptions{.trust_coefficient = -1}) ==
        "lars: trust_coefficient is -1; it must be 0 or more");
  CHECK(of(programs::NovoGradOptions{.beta2 = -0.1}) ==
        "novograd: beta2 is -0.1; it must be in [0, 1)");
  CHECK(of(programs::SgdOptions{.max_norm = -1}) == "sgd: max_norm is -1; it must be 0 or more");
}

TEST_CASE("a row of the shipped programs makes its optimizer with hyperparameters by name") {
  const programs::Shipped& row = *programs::find("momentum_sgd");
  const Program named = row.with(two_ranks(), f32, {.max_norm = 2}, programs::Storage::whole,
                                 {{"momentum", 0.5}, {"nesterov", 1}});
  const Program written =
      programs::momentum_sgd(two_ranks(), f32, {.momentum = 0.5, .nesterov = true, .max_norm = 2});
  CHECK(named.str() == written.str());
  const auto refused = [&](const programs::Hyperparameters& asked) {
    return refusal([&] { (void)row.with(two_ranks(), f32, {}, programs::Storage::whole, asked); });
  };
  CHECK(refused({{"beta1", 0.5}}) ==
        "momentum_sgd has no hyperparameter 'beta1'; it has momentum, dampening, weight_decay, "
        "nesterov");
  CHECK(refused({{"nesterov", 0.5}}) == "momentum_sgd: nesterov is 0.5; it must be 0 or 1");
}

TEST_CASE("every hyperparameter of every shipped optimizer changes its program") {
  int changed = 0;
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with == nullptr) continue;
    const auto with = [&](const programs::Hyperparameters& asked) {
      return shipped.with(two_ranks(), f32, {}, programs::Storage::whole, asked).str();
    };
    for (const auto& [name, value, range] : shipped.hyperparameters) {
      INFO(shipped.name << " " << name);
      const bool is_flag = range == "0 or 1";
      programs::Hyperparameters asked = {{std::string(name), is_flag ? 1 : value / 2 + 0.3}};
      if (name == "decoupled_weight_decay") asked["weight_decay"] = 0.1;
      if (name == "eta_plus") asked["eta_plus"] = 1.5;
      programs::Hyperparameters before = asked;
      before[std::string(name)] = value;
      CHECK(with(asked) != with(before));
      ++changed;
    }
  }
  CHECK(changed == 60);
}

TEST_CASE("constants of loss scaling that GradScaler could not work with are refused") {
  const auto of = [](programs::LossScale scale) {
    return refusal([&] { (void)programs::adam(two_ranks(), f32, {.loss_scale = scale}); });
  };
  const std::string scale_range = "; it must be more than 0 and at most 3.4e38, as an f32";
  CHECK(of({.init_scale = 0}) == "adam: init_scale is 0" + scale_range);
  CHECK(of({.init_scale = 1e39}) == "adam: init_scale is 1e+39" + scale_range);
  CHECK(of({.growth_factor = 1}) == "adam: growth_factor is 1; it must be more than 1");
  CHECK(of({.backoff_factor = 0}) == "adam: backoff_factor is 0; it must be in (0, 1)");
  CHECK(of({.backoff_factor = 1}) == "adam: backoff_factor is 1; it must be in (0, 1)");
  CHECK(of({.growth_interval = 0}) == "adam: growth_interval is 0; it must be in [1, 2^24]");
  CHECK(of({.growth_interval = (1 << 24) + 1}) ==
        "adam: growth_interval is 16777217; it must be in [1, 2^24]");
  const programs::LossScale torch;
  CHECK((torch.init_scale == 65536 && torch.growth_factor == 2 && torch.backoff_factor == 0.5 &&
         torch.growth_interval == 2000));
}

TEST_CASE("every state of every optimizer has a name of PyTorch's, each another one") {
  for (const auto& [shipped, precision] : test::usual_programs()) {
    if (shipped.with == nullptr) continue;
    for (const auto storage : {programs::Storage::whole, programs::Storage::scattered}) {
      const Program program =
          shipped.with(two_ranks(), precision, {.loss_scaling = true, .groups = true}, storage, {});
      std::vector<std::string> names = {"step"};
      for (const ir::Node& node : ir::graph_of(program)->nodes()) {
        if (node.op != ir::Op::state) continue;
        names.emplace_back(programs::torch_name(program.name(), node.name));
        CHECK(programs::torch_name(shipped.name, node.name) == names.back());
      }
      std::ranges::sort(names);
      CHECK(std::ranges::adjacent_find(names) == names.end());
    }
  }
}

TEST_CASE("the names of states are those of torch.optim") {
  const auto names = [](std::string_view optimizer, const std::vector<std::string>& states) {
    std::string text;
    for (const std::string& state : states)
      text += std::string(programs::torch_name(optimizer, state)) + " ";
    return text;
  };
  CHECK(names("sgd", {"w", "t"}) == "param step ");
  CHECK(names("momentum_sgd", {"m"}) == "momentum_buffer ");
  CHECK(names("adam", {"m", "v", "v_max"}) == "exp_avg exp_avg_sq max_exp_avg_sq ");
  CHECK(names("adamw", {"w", "master", "v_max"}) == "param master_param max_exp_avg_sq ");
  CHECK(names("adamw_scattered", {"w", "remainder"}) == "param param_remainder ");
  CHECK(names("adamax", {"m", "u"}) == "exp_avg exp_inf ");
  CHECK(names("nadam", {"m", "v"}) == "exp_avg exp_avg_sq ");
  CHECK(names("radam_scattered", {"m", "v"}) == "exp_avg exp_avg_sq ");
  CHECK(names("adagrad", {"v"}) == "sum ");
  CHECK(names("adadelta", {"v", "d"}) == "square_avg acc_delta ");
  CHECK(names("rmsprop", {"v", "m", "mean"}) == "square_avg momentum_buffer grad_avg ");
  CHECK(names("rprop", {"previous", "step_size"}) == "prev step_size ");
  CHECK(names("lion", {"m"}) == "exp_avg ");
  CHECK(names("lamb", {"m", "v"}) == "exp_avg exp_avg_sq ");
  CHECK(names("lars", {"m"}) == "momentum_buffer ");
  CHECK(names("novograd", {"m", "v"}) == "exp_avg exp_avg_sq ");
  CHECK(names("adam", {"scale", "growth", "skipped"}) == "scale _growth_tracker skipped ");
  CHECK(refusal([] { (void)programs::torch_name("mlp_block", "w"); }) ==
        "torch_name: no optimizer that ships is called 'mlp_block'; see programs::shipped");
  CHECK(refusal([] { (void)programs::torch_name("adadelta", "g"); }) ==
        "torch_name: adadelta has no 'g' with a name in PyTorch; names are there for v, d, w, "
        "master, remainder, scale, growth, skipped, t");
}

TEST_CASE("the product of NAdam's momenta is that of the program") {
  CHECK(programs::nadam_mu_product(0) == 1);
  CHECK(programs::nadam_mu_product(1) ==
        Approx(0.9 * (1 - 0.5 * std::pow(0.96, 0.004))).epsilon(1e-15));
  const double first = 0.8 * (1 - 0.5 * std::pow(0.96, 0.1));
  CHECK(programs::nadam_mu_product(2, {.beta1 = 0.8, .momentum_decay = 0.1}) ==
        Approx(first * 0.8 * (1 - 0.5 * std::pow(0.96, 0.2))).epsilon(1e-15));
  CHECK(programs::nadam_mu_product(1'000'000'000'000) < 1e-300);
}

TEST_CASE("the defaults are PyTorch's, and for lion and lamb the papers'") {
  CHECK(programs::SgdOptions{}.weight_decay == 0);
  const programs::MomentumSgdOptions sgd;
  CHECK((sgd.dampening == 0 && sgd.weight_decay == 0 && !sgd.nesterov));
  const programs::AdamOptions adam;
  CHECK((adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.eps == 1e-8 && adam.weight_decay == 0));
  const programs::AdamWOptions adamw;
  CHECK((adamw.beta1 == 0.9 && adamw.beta2 == 0.999 && adamw.eps == 1e-8 &&
         adamw.weight_decay == 0.01));
  CHECK((!adam.amsgrad && !adamw.amsgrad));
  const programs::AdamaxOptions adamax;
  CHECK((adamax.beta1 == 0.9 && adamax.beta2 == 0.999 && adamax.eps == 1e-8 &&
         adamax.weight_decay == 0));
  const programs::NAdamOptions nadam;
  CHECK((nadam.beta1 == 0.9 && nadam.beta2 == 0.999 && nadam.eps == 1e-8 &&
         nadam.weight_decay == 0 && nadam.momentum_decay == 0.004 &&
         !nadam.decoupled_weight_decay));
  const programs::RAdamOptions radam;
  CHECK((radam.beta1 == 0.9 && radam.beta2 == 0.999 && radam.eps == 1e-8 &&
         radam.weight_decay == 0 && !radam.decoupled_weight_decay));
  const programs::AdagradOptions adagrad;
  CHECK((adagrad.lr_decay == 0 && adagrad.weight_decay == 0 &&
         adagrad.initial_accumulator_value == 0 && adagrad.eps == 1e-10));
  const programs::AdadeltaOptions adadelta;
  CHECK((adadelta.rho == 0.9 && adadelta.eps == 1e-6 && adadelta.weight_decay == 0));
  const programs::RmspropOptions rmsprop;
  CHECK((rmsprop.alpha == 0.99 && rmsprop.eps == 1e-8 && rmsprop.weight_decay == 0 &&
         rmsprop.momentum == 0 && !rmsprop.centered));
  const programs::RpropOptions rprop;
  CHECK((rprop.eta_minus == 0.5 && rprop.eta_plus == 1.2 && rprop.step_size_min == 1e-6 &&
         rprop.step_size_max == 50));
  const programs::LionOptions lion;
  CHECK((lion.beta1 == 0.9 && lion.beta2 == 0.99 && lion.weight_decay == 0));
  const programs::LambOptions lamb;
  CHECK(
      (lamb.beta1 == 0.9 && lamb.beta2 == 0.999 && lamb.eps == 1e-6 && lamb.weight_decay == 0.01));
}
