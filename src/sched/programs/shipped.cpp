// The table of the programs that ship.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "coconet/programs.h"

namespace coconet::programs {

const std::vector<Shipped>& shipped() {
  static const std::vector<std::string_view> all = {"unfused", "sliced", "fused"};
  static const std::vector<std::string_view> all_and_overlapped = {"unfused", "sliced", "fused",
                                                                   "overlapped"};
  static const std::vector<std::string_view> of_nodes = {"unfused", "hierarchical"};
  static const std::vector<DType> floats = {DType::f32, DType::f64, DType::f16, DType::bf16};
  static const std::vector<DType> halves = {DType::f16, DType::bf16};
  static const std::vector<Shipped> table = {
      {"sgd", "stochastic gradient descent", all, floats,
       [](const Mesh& m, DType d) { return sgd(m, d); },
       [](const Mesh& m, DType d) { return sgd(m, d, {}, Storage::scattered); }, 1, of_nodes},
      {"momentum_sgd", "SGD with momentum 0.9", all, floats,
       [](const Mesh& m, DType d) { return momentum_sgd(m, d); },
       [](const Mesh& m, DType d) { return momentum_sgd(m, d, {}, Storage::scattered); }, 1,
       of_nodes},
      {"adam", "Adam, betas 0.9 and 0.999", all, floats,
       [](const Mesh& m, DType d) { return adam(m, d); },
       [](const Mesh& m, DType d) { return adam(m, d, {}, Storage::scattered); }, 1, of_nodes},
      {"adamw", "Adam with decoupled weight decay 0.01", all, floats,
       [](const Mesh& m, DType d) { return adamw(m, d); },
       [](const Mesh& m, DType d) { return adamw(m, d, {}, Storage::scattered); }, 1, of_nodes},
      {"lamb", "LAMB, betas 0.9 and 0.999, weight decay 0.01", all, floats,
       [](const Mesh& m, DType d) { return lamb(m, d); },
       [](const Mesh& m, DType d) { return lamb(m, d, {}, Storage::scattered); }},
      {"lars", "LARS, momentum 0.9, weight decay 0.0005", all, floats,
       [](const Mesh& m, DType d) { return lars(m, d); },
       [](const Mesh& m, DType d) { return lars(m, d, {}, Storage::scattered); }},
      {"novograd", "NovoGrad, betas 0.95 and 0.98", all, floats,
       [](const Mesh& m, DType d) { return novograd(m, d); },
       [](const Mesh& m, DType d) { return novograd(m, d, {}, Storage::scattered); }},
      {"sgd_mixed", "sgd of a 16-bit model with f32 master weights", all, halves,
       [](const Mesh& m, DType d) { return sgd(m, mixed(d)); },
       [](const Mesh& m, DType d) { return sgd(m, mixed(d), {}, Storage::scattered); }},
      {"momentum_sgd_mixed", "momentum_sgd of a 16-bit model with f32 master weights", all, halves,
       [](const Mesh& m, DType d) { return momentum_sgd(m, mixed(d)); },
       [](const Mesh& m, DType d) { return momentum_sgd(m, mixed(d), {}, Storage::scattered); }},
      {"adam_mixed", "adam of a 16-bit model with f32 master weights", all, halves,
       [](const Mesh& m, DType d) { return adam(m, mixed(d)); },
       [](const Mesh& m, DType d) { return adam(m, mixed(d), {}, Storage::scattered); }},
      {"adamw_mixed", "adamw of a 16-bit model with f32 master weights", all, halves,
       [](const Mesh& m, DType d) { return adamw(m, mixed(d)); },
       [](const Mesh& m, DType d) { return adamw(m, mixed(d), {}, Storage::scattered); }},
      {"lamb_mixed", "lamb of a 16-bit model with f32 master weights", all, halves,
       [](const Mesh& m, DType d) { return lamb(m, mixed(d)); },
       [](const Mesh& m, DType d) { return lamb(m, mixed(d), {}, Storage::scattered); }},
      {"lars_mixed", "lars of a 16-bit model with f32 master weights", all, halves,
       [](const Mesh& m, DType d) { return lars(m, mixed(d)); },
       [](const Mesh& m, DType d) { return lars(m, mixed(d), {}, Storage::scattered); }},
      {"novograd_mixed", "novograd of a 16-bit model with f32 master weights", all, halves,
       [](const Mesh& m, DType d) { return novograd(m, mixed(d)); },
       [](const Mesh& m, DType d) { return novograd(m, mixed(d), {}, Storage::scattered); }},
      {"mlp_block", "the end of a transformer's MLP, divided over the ranks", all_and_overlapped,
       floats, [](const Mesh& m, DType d) { return mlp_block(m, d); }},
      {"attention_block", "the end of a transformer's attention, divided over the ranks",
       all_and_overlapped, floats, [](const Mesh& m, DType d) { return attention_block(m, d); }},
      {"pipeline_block", "the hand-off of a transformer's 2-stage pipeline, on 2, 4, 6, .. ranks",
       all_and_overlapped, floats, [](const Mesh& m, DType d) { return pipeline_block(m, d); },
       nullptr, 2},
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
        fmt::format("{} has no schedule for a mesh of nodes; the optimizers sgd, momentum_sgd, "
                    "adam and adamw have",
                    name));
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
