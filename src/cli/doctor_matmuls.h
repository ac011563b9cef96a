// What `coconet doctor` says of matmuls on the host.
#pragma once

#include "cli/findings.h"

namespace coconet::cli {

/// Which libraries multiply what, by which instructions, and what keeps them below the processor's.
void examine_matmuls(Findings& findings);

}  // namespace coconet::cli
