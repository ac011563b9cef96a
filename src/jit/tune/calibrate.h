// Measures the machine at hand: the cluster that predictions for it are made with.
#pragma once

#include <string>

#include "coconet/world.h"
#include "jit/platform/platform.h"
#include "sched/cost/cluster.h"

namespace coconet::jit {

/// What kernels run on, the same for all ranks of one machine: "AMD EPYC, 2 cores, x86-64 ...",
/// "NVIDIA H200".
[[nodiscard]] std::string device_of(const Platform& platform);

/// Collective: times small programs on all ranks of `world` at once. All ranks get the same. Throws
/// what `compile` and `run` do.
[[nodiscard]] sched::Cluster calibrate(const World& world);

}  // namespace coconet::jit
