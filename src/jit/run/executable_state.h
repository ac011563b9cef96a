// The inside of coconet::Executable.
#pragma once

#include "jit/run/roofline.h"
#include "jit/run/runner.h"

namespace coconet {

class Executable::State {
 public:
  /// Collective.
  State(World world, const jit::Platform& platform, std::shared_ptr<const Config> config,
        Program scheduled, jit::ChosenPlan plan, std::map<std::string, std::int64_t> sizes,
        ir::Lists lists)
      : program(std::move(scheduled)),
        number(++jit::comm_of(world).executables()),
        roofline(jit::comm_of(world), platform),
        bound_(std::make_unique<jit::Bound>(std::move(world), platform, std::move(config),
                                            std::move(plan), std::move(sizes), std::move(lists))),
        runner_(std::make_unique<jit::Runner>(*bound_)) {}

  [[nodiscard]] jit::Bound& bound() const { return *bound_; }
  [[nodiscard]] jit::Runner& runner() const { return *runner_; }
  [[nodiscard]] jit::Tensors& tensors() const { return bound_->tensors; }
  [[nodiscard]] jit::Comm& comm() const { return bound_->comm(); }

  /// Collective: goes on with `bound`, of the same program.
  void rebind(std::unique_ptr<jit::Bound> bound);

  /// What takes this plan's place where its kernels cannot reach memory that is bound.
  struct Alternative {
    Program program;  ///< before its schedule
    Schedule schedule;
  };
  void leave_open(Alternative alternative);
  /// Collective, before a step: from the first one on the plan is settled, the alternative's where
  /// a rank has bound memory that other ranks do not reach.
  void settle() {
    if (alternative_) settle_now();
  }

  Program program;       ///< after its schedule
  std::uint64_t number;  ///< among those of the world
  jit::Roofline roofline;

 private:
  void settle_now();

  std::unique_ptr<jit::Bound> bound_;
  std::unique_ptr<jit::Runner> runner_;
  std::optional<Alternative> alternative_;
};

}  // namespace coconet
