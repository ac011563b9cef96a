// A new thread has the mask of the one that starts it.
#include "jit/config/quiet_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>
#include <vector>

namespace coconet::jit {

std::thread start_without_signals(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restore{before};
  return std::thread(std::move(body));
}

void forget_thread(std::thread& thread) {
  // Neither joined, which would never end, nor detached, which would look into its stack.
  static auto* const kept = new std::vector<std::thread>;  // NOLINT: nothing destroys them
  kept->push_back(std::move(thread));
}

}  // namespace coconet::jit
