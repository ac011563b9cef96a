// Threads that start together, or not at all.
#include "jit/platform/host/at_once.h"

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace coconet::jit {

int run_at_once(int count, const std::function<void(int)>& call) {
  enum Verdict : int { none, go, go_home };
  std::atomic<int> verdict = none;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  try {
    for (int index = 0; index < count; ++index) {
      threads.emplace_back([&verdict, &call, index] {
        verdict.wait(none);
        if (verdict == go) call(index);
      });
    }
    verdict = go;
  } catch (const std::system_error&) {
    verdict = go_home;  // those that run would wait for the others for ever
  }
  verdict.notify_all();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

}  // namespace coconet::jit
