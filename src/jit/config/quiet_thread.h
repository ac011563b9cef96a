// Threads of the library's own, which take no signal from the application's.
#pragma once

#include <functional>
#include <thread>

namespace coconet::jit {

/// Runs `body` in a thread that blocks all signals: handlers run on the application's threads.
/// Throws std::system_error where there are no more threads.
[[nodiscard]] std::thread start_without_signals(std::function<void()> body);

/// Gives a handle up whose thread is not here: a child of a fork has only the one that forked.
void forget_thread(std::thread& thread);

}  // namespace coconet::jit
