// All kernels of an executable.
#pragma once

#include <vector>

#include "jit/codegen/codegen.h"
#include "sched/plan.h"

namespace coconet::jit {

/// How a platform launches kernels.
struct Launching {
  bool immediate =
      false;      ///< its queues do what is put into them before they return: `Traits::immediate`
  int ranks = 1;  ///< of a launch
};

/// The texts of all kernels that an executable of `plan` needs: those of its kernel steps, in
/// execution order, then those that its library steps need: what tells of a product's tiles, and
/// the reductions of ranks that one launch runs.
[[nodiscard]] std::vector<KernelText> kernel_texts(const sched::Plan& plan,
                                                   const Launching& launching);

}  // namespace coconet::jit
