// The table of the programs that ship.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "coconet/programs.h"
#include "sched/programs/hyperparameters.h"
#include "sched/programs/training.h"

namespace coconet::programs {

namespace {

using Names = std::vector<std::string_view>;

Names all() {
  return {"unfused", "sliced", "fused"};
}
Names all_and_overlapped() {
  return {"unfused", "sliced", "fused", "overlapped"};
}
Names of_nodes() {
  return {"unfused", "hierarchical"};
}
std::vector<DType> floats() {
  return {DType::f32, DType::f64, DType::f16, DType::bf16};
}

/// The options that an optimizer takes.
template <class Options>
Options options_of(Program (*)(const Mesh&, Precision, Options, Storage));

template <class Options>
std::vector<HyperparameterInfo> infos() {
  std::vector<HyperparameterInfo> all;
  for (const Hyperparameter<Options>& one : hyperparameters<Options>.rows)
    all.push_back({one.name, one.of(Options{}), one.range.text});
  return all;
}

/// The default options with the values of `asked`. Throws ProgramError for a name that they do not
/// have.
template <class Options>
Options with_hyperparameters(const Hyperparameters& asked) {
  Options options;
  const auto& known = hyperparameters<Options>;
  for (const auto& [name, value] : asked) {
    const auto found =
        std::find_if(known.rows.begin(), known.rows.end(),
                     [&, &name = name](const auto& one) { return one.name == name; });
    if (found == known.rows.end()) {
      std::vector<std::string_view> names;
      for (const auto& one : known.rows) names.push_back(one.name);
      throw ProgramError(fmt::format("{} has no hyperparameter '{}'; it has {}", known.name, name,
                                     fmt::join(names, ", ")));
    }
    require_in_range(known.name, found->name, value, found->range);
    found->set(options, value);
  }
  return options;
}

/// The program that `make` makes with other than its default hyperparameters.
template <auto make>
Program make_with(const Mesh& mesh, Precision precision, const TrainingOptions& training,
                  Storage storage, const Hyperparameters& asked) {
  const auto options = with_hyperparameters<decltype(options_of(make))>(asked);
  return make(mesh, precision, with_training(options, training), storage);
}

/// The row of an optimizer, which `make` makes.
template <auto make>
Shipped optimizer(std::string_view name, std::string_view summary) {
  return {name,
          summary,
          all(),
          floats(),
          [](const Mesh& mesh, DType dtype) { return make(mesh, dtype, {}, Storage::whole); },
          [](const Mesh& mesh, DType dtype) { return make(mesh, dtype, {}, Storage::scattered); },
          make_with<make>,
          1,
          of_nodes(),
          infos<decltype(options_of(make))>()};
}

void require_mixed(const Precision& precision) {
  if (precision.mixed()) return;
  throw ProgramError(
      fmt::format("a program in mixed precision is made with mixed({0}), as Shipped::precision "
                  "gives it, not with {0}",
                  to_string(precision.model)));
}

/// A row for a program in mixed precision.
template <auto make>
Shipped mixed_optimizer(std::string_view name, std::string_view summary) {
  Shipped row = optimizer<make>(name, summary);
  row.dtypes = {DType::f16, DType::bf16};
  row.build = [](const Mesh& mesh, DType dtype) {
    return make(mesh, mixed(dtype), {}, Storage::whole);
  };
  row.scattered = [](const Mesh& mesh, DType dtype) {
    return make(mesh, mixed(dtype), {}, Storage::scattered);
  };
  row.with = [](const Mesh& mesh, Precision precision, const TrainingOptions& training,
                Storage storage, const Hyperparameters& asked) {
    require_mixed(precision);
    return make_with<make>(mesh, precision, training, storage, asked);
  };
  return row;
}

}  // namespace

const std::vector<Shipped>& shipped() {
  static const std::vector<Shipped> table = {
      optimizer<sgd>("sgd", "stochastic gradient descent"),
      optimizer<momentum_sgd>("momentum_sgd", "SGD with momentum 0.9"),
      optimizer<adam>("adam", "Adam, betas 0.9 and 0.999"),
      optimizer<adamw>("adamw", "Adam with decoupled weight decay 0.01"),
      optimizer<adamax>("adamax", "Adamax, betas 0.9 and 0.999"),
      optimizer<nadam>("nadam", "NAdam, betas 0.9 and 0.999"),
      optimizer<radam>("radam", "RAdam, betas 0.9 and 0.999"),
      optimizer<adagrad>("adagrad", "Adagrad"),
      optimizer<adadelta>("adadelta", "Adadelta, rho 0.9"),
      optimizer<rmsprop>("rmsprop", "RMSprop, alpha 0.99"),
      optimizer<rprop>("rprop", "Rprop, etas 0.5 and 1.2"),
      optimizer<lion>("lion", "Lion, betas 0.9 and 0.99"),
      optimizer<lamb>("lamb", "LAMB, betas 0.9 and 0.999, weight decay 0.01"),
      optimizer<lars>("lars", "LARS, momentum 0.9, weight decay 0.0005"),
      optimizer<novograd>("novograd", "NovoGrad, betas 0.95 and 0.98"),
      mixed_optimizer<sgd>("sgd_mixed", "sgd of a 16-bit model with f32 master weights"),
      mixed_optimizer<momentum_sgd>("momentum_sgd_mixed",
                                    "momentum_sgd of a 16-bit model with f32 master weights"),
      mixed_optimizer<adam>("adam_mixed", "adam of a 16-bit model with f32 master weights"),
      mixed_optimizer<adamw>("adamw_mixed", "adamw of a 16-bit model with f32 master weights"),
      mixed_optimizer<adamax>("adamax_mixed", "adamax of a 16-bit model with f32 master weights"),
      mixed_optimizer<nadam>("nadam_mixed", "nadam of a 16-bit model with f32 master weights"),
      mixed_optimizer<radam>("radam_mixed", "radam of a 16-bit model with f32 master weights"),
      mixed_optimizer<adagrad>("adagrad_mixed",
                               "adagrad of a 16-bit model with f32 master weights"),
      mixed_optimizer<adadelta>("adadelta_mixed",
                                "adadelta of a 16-bit model with f32 master weights"),
      mixed_optimizer<rmsprop>("rmsprop_mixed",
                               "rmsprop of a 16-bit model with f32 master weights"),
      mixed_optimizer<rprop>("rprop_mixed", "rprop of a 16-bit model with f32 master weights"),
      mixed_optimizer<lion>("lion_mixed", "lion of a 16-bit model with f32 master weights"),
      mixed_optimizer<lamb>("lamb_mixed", "lamb of a 16-bit model with f32 master weights"),
      mixed_optimizer<lars>("lars_mixed", "lars of a 16-bit model with f32 master weights"),
      mixed_optimizer<novograd>("novograd_mixed",
                                "novograd of a 16-bit model with f32 master weights"),
      {"mlp_block", "the end of a transformer's MLP, divided over the ranks", all_and_overlapped(),
       floats(), [](const Mesh& m, DType d) { return mlp_block(m, d); }},
      {"attention_block", "the end of a transformer's attention, divided over the ranks",
       all_and_overlapped(), floats(),
       [](const Mesh& m, DType d) { return attention_block(m, d); }},
      {"pipeline_block", "the hand-off of a transformer's 2-stage pipeline, on 2, 4, 6, .. ranks",
       all_and_overlapped(), floats(), [](const Mesh& m, DType d) { return pipeline_block(m, d); },
       nullptr, nullptr, 2},
  };
  return table;
}

Precision Shipped::precision(DType dtype, MasterWeights kept) const {
  if (name.ends_with("_mixed")) return mixed(dtype, kept);
  if (kept != MasterWeights::copy) {
    throw ProgramError(fmt::format(
        "{} has no master weights; programs in mixed precision, such as adam_mixed, have", name));
  }
  return dtype;
}

Mesh Shipped::mesh(int ranks) const {
  if (stages == 1) return Mesh({{"world", ranks}});
  if (!runs_on(ranks)) {
    throw ProgramError(fmt::format(
        "{} has {} stages, each of as many ranks; it runs on a multiple of {} ranks, not on {}",
        name, stages, stages, ranks));
  }
  return Mesh({{"pp", stages}, {"tp", ranks / stages}});
}

Mesh Shipped::mesh_of_nodes(int ranks, int nodes) const {
  if (across_nodes.empty()) {
    throw ProgramError(
        fmt::format("{} has no schedule for a mesh of nodes; only the optimizers have one", name));
  }
  if (nodes < 1 || ranks % nodes != 0) {
    throw ProgramError(fmt::format("{} on {} nodes runs on as many ranks of each, not on {} in all",
                                   name, nodes, ranks));
  }
  return Mesh({{"node", nodes}, {"gpu", ranks / nodes}});
}

const Shipped* find(std::string_view name) {
  const auto found = std::find_if(shipped().begin(), shipped().end(),
                                  [&](const Shipped& program) { return program.name == name; });
  return found == shipped().end() ? nullptr : &*found;
}

}  // namespace coconet::programs
