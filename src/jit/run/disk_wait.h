// Collective work on disks, which takes some ranks longer than COCONET_TIMEOUT_S.
#pragma once

#include <cstdint>
#include <functional>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// `together` of a body that reads or writes up to `bytes` on all ranks in all: a rank is late only
/// after a time in which a slow disk does that. One that is lost is noticed as ever.
void together_on_disk(Comm& comm, std::uint64_t bytes, const std::function<void()>& body);

}  // namespace coconet::jit
