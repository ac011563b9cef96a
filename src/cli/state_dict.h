// `coconet run --state-dict DIR`: the states of a shipped optimizer as files that Python reads,
// with the names of torch.optim.
#pragma once

#include <cstdint>
#include <string>

#include "cli/program_spec.h"
#include "coconet/executable.h"
#include "coconet/world.h"

namespace coconet::cli {

/// Throws UsageError unless `spec` is an optimizer that ships.
void require_optimizer(const ProgramSpec& spec);

/// Makes `directory` on rank 0, where it is not there yet. Throws ConfigError when it cannot.
void make_state_directory(const World& world, const std::string& directory);

/// Collective: writes every state whole into `directory`, as `NAME.npy` with the NAME that
/// programs::torch_name gives it; `step.npy`, f32, the number of steps taken: `t`, less those that
/// loss scaling skipped; and for nadam `mu_product.npy`, f32. Sums of gradients are left out, of
/// which every rank has its own.
void write_state_dict(Executable& step, const World& world, const std::string& directory,
                      std::int64_t t);

}  // namespace coconet::cli
