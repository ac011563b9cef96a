// Optimizers as programs of their own.
#pragma once

#include <functional>
#include <string_view>

#include "sched/programs/training.h"

namespace coconet::programs {

/// Whether gradients are averaged over "gpu", between ranks of a node, and then over "node".
[[nodiscard]] bool averages_by_nodes(const Mesh& mesh);

/// What a step does to one tensor.
using Formula = std::function<void(Training&)>;

/// The program of the optimizer `name`: an input `g`, its average over the ranks, a state `w`, and
/// what `formula` does to it.
[[nodiscard]] Program averaged(std::string_view name, const TrainingOptions& options,
                               const Mesh& mesh, Precision precision, Storage storage,
                               const Formula& formula);

/// Adds the step of the optimizer `name` over `weights`, states of `program`, to it, and returns
/// what each is after the step. Throws ProgramError.
std::vector<Value> add_steps(std::string_view name, const TrainingOptions& options,
                             Program& program, const std::vector<Value>& weights,
                             const std::vector<Value>& gradients,
                             const ParameterOptions& parameters, bool has_weight_decay,
                             const Formula& formula);

}  // namespace coconet::programs
