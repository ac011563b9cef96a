// Noting signals; see interrupts.h.
#include "cli/interrupts.h"

#include <csignal>

namespace coconet::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

void listen_for_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool was_interrupted() {
  return interrupted != 0;
}

}  // namespace coconet::cli
