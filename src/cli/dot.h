// Pictures of programs, as Graphviz text.
#pragma once

#include <string>

#include "coconet/program.h"

namespace coconet::cli {

/// Two programs side by side: as written, and after its schedule with a frame around each kernel.
/// Numbers are left out; colours tell tensors, collectives and writes apart.
[[nodiscard]] std::string dot(const Program& before, const Program& after);

}  // namespace coconet::cli
