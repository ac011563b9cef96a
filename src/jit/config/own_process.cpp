// Forks are counted in the child.
#include "jit/config/own_process.h"

#include <pthread.h>

#include <atomic>

namespace coconet::jit {
namespace {

std::atomic<unsigned> forks_so_far = 0;

}  // namespace

unsigned OwnProcess::forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks_so_far; });
  (void)registered;
  return forks_so_far;
}

}  // namespace coconet::jit
