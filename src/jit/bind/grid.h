// How many blocks and threads a kernel is launched with.
#pragma once

#include <cstddef>

#include "jit/bind/rank_plan.h"
#include "jit/codegen/codegen.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// What a GPU accesses at once at most, and what its lanes therefore move when no knob says otherwise.
inline constexpr std::size_t widest_access = 16;

/// Elements that a lane of a GPU moves together: the W of the kernel's text.
[[nodiscard]] std::size_t lanes_of(const sched::Plan& plan, const sched::KernelStep& step);

/// Collective: the same grid on every rank, as ranks wait for each other block by block. Throws BackendError when knobs
/// ask for more threads than the kernel can have, or for more blocks than can be resident where blocks wait.
[[nodiscard]] Grid choose_grid(Comm& comm, const Platform& platform, const Kernel& kernel,
                               const KernelText& text, const RankPlan& plan,
                               const sched::KernelStep& step);

}  // namespace coconet::jit
