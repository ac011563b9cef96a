// Runs many calls that wait for each other, each on a thread of its own.
#pragma once

#include <functional>

namespace coconet::jit {

/// Calls `call(0)` to `call(count - 1)`, all at once, and returns `count` when they have ended.
/// Where the system gives fewer threads, nothing is called, and their number returned.
[[nodiscard]] int run_at_once(int count, const std::function<void(int)>& call);

}  // namespace coconet::jit
