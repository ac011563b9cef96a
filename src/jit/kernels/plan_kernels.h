// All kernels of an executable.
#pragma once

#include "jit/codegen/codegen.h"

namespace coconet::jit {

/// How a platform launches kernels.
struct Launching {
  bool immediate = false;  ///< `Traits::immediate`
  int ranks = 1;           ///< of a launch
};

/// The texts of all kernels of an executable: of the kernel steps of `plan`, in order, then of its
/// library steps: what signals a product's tiles, and reductions of ranks that one launch runs.
[[nodiscard]] std::vector<KernelText> kernel_texts(const sched::Plan& plan,
                                                   const Launching& launching);

}  // namespace coconet::jit
