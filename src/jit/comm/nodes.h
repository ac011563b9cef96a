// What to say when the ranks of an MPI world are on several nodes.
#pragma once

#include <string>
#include <vector>

namespace coconet::jit {

/// A sentence that names every host with its ranks. `host_by_rank` holds each rank's host.
[[nodiscard]] std::string several_nodes_message(const std::vector<std::string>& host_by_rank);

}  // namespace coconet::jit
