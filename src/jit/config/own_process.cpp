// Forks are counted in the child.
#include "jit/config/own_process.h"

#include <pthread.h>

#include <atomic>

namespace coconet::jit {
namespace {

std::atomic<unsigned> count = 0;

}  // namespace

unsigned OwnProcess::forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++count; });
  (void)registered;
  return count;
}

}  // namespace coconet::jit
