// Forks are counted in the child.
#include "jit/config/own_process.h"

#include <pthread.h>

#include <atomic>

namespace coconet::jit {

unsigned OwnProcess::forks() {
  static std::atomic<unsigned> so_far = 0;
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++so_far; });
  (void)registered;
  return so_far;
}

}  // namespace coconet::jit
