// Looking after NCCL, whose collectives wait for other ranks without end.
#include "jit/run/watchdog.h"

#include <chrono>
#include <thread>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/bind/step_sync.h"

namespace coconet::jit {

void finish_watching(Comm& comm, const Queue& queue, std::span<Collectives* const> collectives) {
  constexpr unsigned looks_before_sleep = 1000;
  const auto deadline = std::chrono::steady_clock::now() + config().timeout;
  try {
    for (unsigned looks = 1; !queue.idle(); ++looks) {
      if (looks > looks_before_sleep) std::this_thread::sleep_for(std::chrono::microseconds(20));
      comm.require_nobody_failed();
      for (Collectives* const one : collectives) one->check();
      if (std::chrono::steady_clock::now() < deadline) continue;
      throw CommError("rank " + std::to_string(comm.rank()) + " waited " +
                      seconds(config().timeout) +
                      " s for its library collectives; another rank is late, stuck or gone "
                      "(COCONET_TIMEOUT_S sets the limit)");
    }
  } catch (const CommError&) {
    for (Collectives* const one : collectives) one->abort();
    throw;
  }
}

}  // namespace coconet::jit
