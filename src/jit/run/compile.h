// Programs with steps to executables; `coconet::compile` chooses the steps where they are
// automatic.
#pragma once

#include "coconet/executable.h"

namespace coconet::jit {

/// `coconet::compile` for a schedule that is not automatic. `notes` are for its reports.
[[nodiscard]] Executable compile_scheduled(const Program& program, const Schedule& schedule,
                                           const World& world, const Sizes& sizes,
                                           const ParameterLists& lists,
                                           std::vector<std::string> notes = {});

}  // namespace coconet::jit
