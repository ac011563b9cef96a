// How many blocks and threads a kernel is launched with.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "jit/backend/backend.h"
#include "jit/codegen/codegen.h"
#include "jit/comm/comm.h"
#include "sched/plan.h"

namespace coconet::jit {

/// Collective: the same grid on every rank, as ranks wait for each other block by block. Throws BackendError when knobs
/// ask for more threads than the kernel can have, or for more blocks than can be resident where blocks wait.
[[nodiscard]] Grid choose_grid(Comm& comm, const Backend& backend, const Kernel& kernel,
                               const KernelText& text, const sched::Plan& plan,
                               const sched::KernelStep& step,
                               const std::map<std::string, std::int64_t>& sizes);

}  // namespace coconet::jit
