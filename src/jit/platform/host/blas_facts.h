// What there is of a matmul library of the host on this machine.
#pragma once

#include <string>

#include "jit/platform/host/instruction_set.h"
#include "jit/platform/shared_library.h"

namespace coconet::jit {

struct BlasFacts : LibraryFacts {
  InstructionSet instructions = InstructionSet::baseline;  ///< that its kernels are written for
  std::string kernels = {};                                ///< what OpenBLAS calls them: "SkylakeX"
};

}  // namespace coconet::jit
