// Programs with steps to executables; `coconet::compile` (jit/api) chooses the steps where they are
// automatic.
#pragma once

#include "coconet/config.h"
#include "coconet/executable.h"

namespace coconet::jit {

/// What a schedule does not say.
struct CompileChoices {
  std::vector<std::string> notes = {};  ///< for reports
  bool collectives_by_mpi = false;      ///< library collectives on the host, whatever the bytes
  std::shared_ptr<const Config> config = {};  ///< null: the world's
};

/// `coconet::compile` for a schedule that is not automatic.
[[nodiscard]] Executable compile_scheduled(const Program& program, const Schedule& schedule,
                                           const World& world, const Sizes& sizes,
                                           const ParameterLists& lists,
                                           const CompileChoices& choices = {});

}  // namespace coconet::jit
