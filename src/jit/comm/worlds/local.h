// Running the ranks of a local world: threads of this process.
#pragma once

#include <functional>
#include <memory>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// Runs `body` on `ranks` threads, each with its comm of one new world. When a rank throws, the
/// others' waits for it end at once. Throws after all have ended, what the first rank threw of its
/// own accord; what ranks threw because another one had failed comes last.
void run_local_ranks(int ranks, const std::function<void(const std::shared_ptr<Comm>&)>& body);

}  // namespace coconet::jit
