// Hands open file descriptors from process to process, over sockets that live as long as the
// exchange.
#pragma once

#include <vector>

#include "jit/comm/comm.h"
#include "jit/config/open_file.h"

namespace coconet::jit {

/// Collective among the processes of a node, `comm`: every rank's descriptor, by rank; the own
/// one's place is empty. Throws CommError naming a rank whose descriptor does not come within
/// COCONET_TIMEOUT_S.
[[nodiscard]] std::vector<OpenFile> exchange_descriptors(Comm& comm, int mine);

}  // namespace coconet::jit
