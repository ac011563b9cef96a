// The table of the programs that ship.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "coconet/gpt.h"
#include "coconet/programs.h"
#include "sched/programs/training.h"

namespace coconet::programs {

namespace {

std::vector<Precision> floats() {
  return {DType::f32, DType::f64, DType::f16, DType::bf16};
}
std::vector<Precision> floats_and_mixed() {
  std::vector<Precision> all = floats();
  for (const DType model : {DType::f16, DType::bf16}) all.push_back(mixed(model));
  return all;
}

/// A function that makes the program of the optimizer with these options.
template <class Options>
using Make = Program (*)(const Mesh&, Precision, Options, Storage);

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
    const auto found = std::ranges::find(known.rows, name, &Hyperparameter<Options>::name);
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
template <class Options, Make<Options> make>
Program make_with(const Mesh& mesh, Precision precision, const TrainingOptions& training,
                  Storage storage, const Hyperparameters& asked) {
  const auto options = with_hyperparameters<Options>(asked);
  return make(mesh, precision, with_training(options, training), storage);
}

/// The row of an optimizer, which `make` makes.
template <class Options, Make<Options> make>
Shipped optimizer(std::string_view name, std::string_view summary) {
  return {name,
          summary,
          {"unfused", "sliced", "fused"},
          floats_and_mixed(),
          [](const Mesh& mesh, Precision of) { return make(mesh, of, {}, Storage::whole); },
          [](const Mesh& mesh, Precision of) { return make(mesh, of, {}, Storage::scattered); },
          make_with<Options, make>,
          nullptr,
          1,
          {"unfused", "hierarchical"},
          infos<Options>()};
}

/// `made`, which is no optimizer. Throws ProgramError for mixed precision.
Program unmixed(Program made, const Precision& precision) {
  if (!precision.mixed()) return made;
  throw ProgramError(made.name() + " has no master weights; mixed precision is for optimizers");
}

/// The row of a transformer's block.
template <auto make>
Shipped block(std::string_view name, std::string_view summary, int stages = 1) {
  return {
      .name = name,
      .summary = summary,
      .schedules = {"unfused", "sliced", "fused", "overlapped"},
      .precisions = floats(),
      .build = [](const Mesh& mesh, Precision of) { return unmixed(make(mesh, of.model, {}), of); },
      .stages = stages};
}

/// The row of the training step of a whole model.
Shipped model() {
  return {.name = "gpt",
          .summary = "a training step of a transformer: loss, gradients and AdamW",
          .schedules = {},
          .precisions = floats(),
          .build = [](const Mesh& mesh, Precision of) { return unmixed(gpt(mesh, of.model), of); },
          .with_layers = [](const Mesh& mesh, Precision of,
                            int layers) { return unmixed(gpt(mesh, of.model, layers), of); }};
}

}  // namespace

const std::vector<Shipped>& shipped() {
  static const std::vector<Shipped> table = {
#define COCONET_OPTIMIZER(name, Options, summary) optimizer<Options, name>(#name, summary),
#include "coconet/optimizers.def"
#undef COCONET_OPTIMIZER
      block<mlp_block>("mlp_block", "the end of a transformer's MLP, divided over the ranks"),
      block<attention_block>("attention_block",
                             "the end of a transformer's attention, divided over the ranks"),
      block<pipeline_block>(
          "pipeline_block",
          "the hand-off of a transformer's 2-stage pipeline, on 2, 4, 6, .. ranks", 2),
      model(),
  };
  return table;
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
  const auto found = std::ranges::find(shipped(), name, &Shipped::name);
  return found == shipped().end() ? nullptr : &*found;
}

}  // namespace coconet::programs
