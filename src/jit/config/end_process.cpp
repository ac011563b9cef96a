// Streams are locked by threads, and a pipe may be full: whoever ends the process waits for
// neither.
#include "jit/config/end_process.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <system_error>

#include "jit/config/quiet_thread.h"

namespace coconet::jit {

void end_process(int code, const std::string& message, const std::function<void()>& meanwhile) {
  const auto printed = std::make_shared<std::promise<void>>();
  std::future<void> done = printed->get_future();
  try {
    start_without_signals([printed, message] {
      (void)!write(STDERR_FILENO, message.data(), message.size());
      std::fflush(nullptr);
      printed->set_value();
    }).detach();
  } catch (const std::system_error&) {
    (void)!write(STDERR_FILENO, message.data(), message.size());
    printed->set_value();
  }
  if (meanwhile) meanwhile();
  (void)done.wait_for(std::chrono::seconds(1));
  _exit(code);
}

}  // namespace coconet::jit
