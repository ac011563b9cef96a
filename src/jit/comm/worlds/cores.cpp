// Reads the cores that ranks may run on, and counts ranks per core.
#include "jit/comm/worlds/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace coconet::jit {

Cores available_cores() {
  Cores cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (std::size_t core = 0; core < std::min<std::size_t>(cores.size(), CPU_SETSIZE); ++core) {
      if (CPU_ISSET(core, &set)) cores.set(core);
    }
  }
  if (cores.none()) {
    const std::size_t count = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t core = 0; core < std::min(cores.size(), count); ++core) cores.set(core);
  }
  return cores;
}

int ranks_per_core(const std::vector<Cores>& by_rank) {
  Cores all;
  for (const Cores& cores : by_rank) all |= cores;
  std::vector<Cores> places = by_rank;
  places.push_back(all);
  std::size_t most = 1;
  for (const Cores& place : places) {
    const std::size_t inside =
        std::ranges::count_if(by_rank, [&](const Cores& cores) { return (cores & ~place).none(); });
    if (place.any()) most = std::max(most, (inside + place.count() - 1) / place.count());
  }
  return static_cast<int>(most);
}

bool have_cores(Comm& comm, int threads) {
  std::vector<Cores> by_thread;
  for (const std::string& text : comm.node().all_gather(available_cores().to_string()))
    by_thread.insert(by_thread.end(), threads, Cores(text));
  const bool crowded = ranks_per_core(by_thread) > 1;
  if (&comm.node() == &comm) return !crowded;
  return !comm.any_failed(crowded, 0);
}

}  // namespace coconet::jit
