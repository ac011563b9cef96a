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
        bound_(std::make_unique<jit::Bound>(std::move(world), platform, std::move(config),
                                            std::move(plan), std::move(sizes), std::move(lists))),
        runner_(std::make_unique<jit::Runner>(*bound_)),
        roofline_(bound_->comm(), platform, bound_->cores.count) {}

  [[nodiscard]] jit::Bound& bound() const { return *bound_; }
  [[nodiscard]] jit::Runner& runner() const { return *runner_; }
  [[nodiscard]] jit::Tensors& tensors() const { return bound_->tensors; }
  [[nodiscard]] jit::Roofline& roofline() { return roofline_; }
  [[nodiscard]] jit::Comm& comm() const { return bound_->comm(); }

  /// Collective: goes on with `bound`, of the same plan.
  void rebind(std::unique_ptr<jit::Bound> bound);

  Program program;       ///< after its schedule
  std::uint64_t number;  ///< among those of the world

 private:
  std::unique_ptr<jit::Bound> bound_;
  std::unique_ptr<jit::Runner> runner_;
  jit::Roofline roofline_;
};

}  // namespace coconet
