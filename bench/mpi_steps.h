// Steps that take MPI and nothing of this library, by name: what peers do, in the benchmark's own
// processes and in those of another MPI (mpi_peers.cpp).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/half.h"
#include "lamb_peer.h"
#include "mixed_peer.h"
#include "mpi_collectives.h"
#include "mpi_step.h"
#include "optimizer_peers.h"
#include "problem.h"

namespace bench {

/// Of an optimizer, whose model is of `Model`.
template <class Peer, class Model>
class MpiUpdate final : public MpiStep {
 public:
  template <class... How>
  MpiUpdate(std::size_t n, int rank, int ranks, How... how)
      : g_(as_model(make_gradient(n, rank))),
        w_(as_model(std::vector<float>(n, first_weight))),
        peer_(n, ranks, how...) {}
  void begin() override { peer_.begin(g_, w_); }
  void step(int t) override { peer_.step(t); }
  [[nodiscard]] std::vector<float> results() const override {
    const std::span<const Model> weights = peer_.weights();
    std::vector<float> wide(weights.size());
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if constexpr (is_wide) {
        wide[i] = weights[i];
      } else {
        wide[i] = coconet::ir::widened(weights[i]);
      }
    }
    return wide;
  }
  [[nodiscard]] int most_steps() const override { return peer_.most_steps(); }

 private:
  static constexpr bool is_wide = std::is_same_v<Model, float>;
  static std::vector<Model> as_model(const std::vector<float>& values) {
    std::vector<Model> model;
    for (const float value : values) {
      if constexpr (is_wide) {
        model.push_back(value);
      } else {
        model.push_back(coconet::ir::narrowed<Model>(value));
      }
    }
    return model;
  }

  std::vector<Model> g_, w_;
  Peer peer_;
};

using MakeMpiStep = std::function<std::unique_ptr<MpiStep>(std::size_t n, int rank, int ranks)>;

inline const std::map<std::string, MakeMpiStep>& mpi_steps() {
  static const auto table = [] {
    std::map<std::string, MakeMpiStep> steps;
    const auto add = [&]<class Step, class How>(const std::string& name, How how) {
      steps[name] = [how](std::size_t n, int rank, int ranks) -> std::unique_ptr<MpiStep> {
        return std::make_unique<Step>(n, rank, ranks, how);
      };
    };
    const auto add_optimizer = [&]<class Peer>(const std::string& name) {
      using Update = MpiUpdate<Peer, float>;
      add.template operator()<Update>(name, false);
      add.template operator()<Update>(name + in_place, true);
    };
    const auto add_mixed = [&]<class Model>(const std::string& name) {
      using Update = MpiUpdate<MixedPeer<Model>, Model>;
      add.template operator()<Update>(name + ", widened", Sum::widened);
      add.template operator()<Update>(name + ", 16 bits", Sum::by_op);
    };
    add_optimizer.operator()<Peer<rules::Sgd>>("sgd");
    add_optimizer.operator()<Peer<rules::MomentumSgd>>("momentum_sgd");
    add_optimizer.operator()<Peer<rules::Adam>>("adam");
    add_optimizer.operator()<Peer<rules::AmsGrad>>("adam, amsgrad");
    add_optimizer.operator()<Peer<rules::AdamW>>("adamw");
    add_optimizer.operator()<Peer<rules::Adamax>>("adamax");
    add_optimizer.operator()<Peer<rules::NAdam>>("nadam");
    add_optimizer.operator()<Peer<rules::RAdam>>("radam");
    add_optimizer.operator()<Peer<rules::Adagrad>>("adagrad");
    add_optimizer.operator()<Peer<rules::Adadelta>>("adadelta");
    add_optimizer.operator()<Peer<rules::RmsProp>>("rmsprop");
    add_optimizer.operator()<Peer<rules::Rprop>>("rprop");
    add_optimizer.operator()<Peer<rules::Lion>>("lion");
    add_optimizer.operator()<LambPeer>("lamb");
    add_optimizer.operator()<Peer<rules::Lars>>("lars");
    add_optimizer.operator()<Peer<rules::NovoGrad>>("novograd");
    add_mixed.operator()<coconet::Half>("adam mixed f16");
    add_mixed.operator()<coconet::BFloat16>("adam mixed bf16");
    for (const MpiCollective& one : mpi_collectives)
      add.operator()<MpiCollectiveStep>(one.name, one);
    return steps;
  }();
  return table;
}

}  // namespace bench
