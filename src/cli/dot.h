// Pictures of programs, as Graphviz text.
#pragma once

#include <string>

#include "coconet/program.h"

namespace coconet::cli {

/// Two programs side by side: as written, and after its schedule with a frame around each kernel.
/// An edge goes from each collective to the other ranks and back, with how many they are. Numbers
/// are left out; colours tell tensors, collectives and writes apart.
[[nodiscard]] std::string dot(const Program& before, const Program& after);

/// Graphviz text as an SVG picture. Throws BackendError when there is no Graphviz, or it fails.
[[nodiscard]] std::string svg(const std::string& dot);

}  // namespace coconet::cli
