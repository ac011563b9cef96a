// Measures the machine at hand: the cluster that predictions for it are made with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coconet/world.h"
#include "jit/platform/platform.h"
#include "sched/cost/cluster.h"

namespace coconet::jit {

/// What kernels run on, the same for all ranks of one machine: "AMD EPYC, 2 cores, x86-64 ...",
/// "NVIDIA H200".
[[nodiscard]] std::string device_of(const Platform& platform);

/// Costs by sizes that grow, which cannot fall: where one does, by more than a tenth, the one
/// before it was disturbed, and is measured again, up to three times; the least counts.
void measure_what_falls_again(std::vector<double>& costs,
                              const std::function<double(std::size_t place)>& again);

/// Collective: times small programs on all ranks of `world` at once, for what `cluster` lacks. All
/// ranks get the same. Calls `keep`, if any, whenever it has more, and asks `interrupted`, if any,
/// between measurements: any rank's yes ends them. Whether it came to its end. Throws what
/// `compile` and `run` do.
[[nodiscard]] bool calibrate(const World& world, sched::Cluster& cluster,
                             const std::function<void()>& keep,
                             const std::function<bool()>& interrupted);

}  // namespace coconet::jit
