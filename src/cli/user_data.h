// The user's own data for `coconet run`: tensors from .npy files and into them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "coconet/executable.h"
#include "coconet/world.h"

namespace coconet::ir {
struct Node;
}

namespace coconet::cli {

/// Files by tensor. In a file's name %r is the rank: then it has the part that this rank holds,
/// else the whole tensor.
using DataFiles = std::map<std::string, std::string>;

/// Whether the name of `file` has %r.
[[nodiscard]] bool is_by_rank(const std::string& file);
/// Whether every rank has its own elements, along some axis.
[[nodiscard]] bool is_local(const ir::Node& node);

/// Collective: writes inputs and states. Throws UsageError or ConfigError naming the file.
void give(Executable& step, const World& world, const DataFiles& files);
/// Collective: reads states and outputs into files. A local tensor needs %r. Errors name `option`.
void take(Executable& step, const World& world, const DataFiles& files, std::string_view option);

/// Throws UsageError unless all of `inputs` are inputs or states of the program, all its inputs are
/// among them, and `outputs` are states or outputs.
void require_tensors(const Program& program, const DataFiles& inputs, const DataFiles& outputs);

}  // namespace coconet::cli
