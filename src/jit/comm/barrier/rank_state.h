// A rank's state as it stands in memory that ranks share.
#pragma once

#include <atomic>
#include <cstdint>

#include "jit/comm/barrier/membership.h"

namespace coconet::jit {

enum RankState : std::uint32_t { present, failed, left, gone };

/// `word`, which other ranks write, too.
template <class T>
[[nodiscard]] std::atomic_ref<T> shared(T& word) {
  return std::atomic_ref<T>(word);
}

[[nodiscard]] inline RankState state_of(RankStatus& status) {
  return static_cast<RankState>(shared(status.state).load(std::memory_order_acquire));
}

}  // namespace coconet::jit
