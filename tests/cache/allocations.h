// Counts what this program allocates with `new`.
#pragma once

#include <cstdint>

namespace coconet::jit {

/// How often operator new was called by the calling thread.
[[nodiscard]] std::uint64_t allocations();

}  // namespace coconet::jit
