// Reads the cores that ranks may run on, and counts ranks per core and cores per rank.
#include "jit/comm/worlds/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <thread>

#include "jit/config/launcher.h"

namespace coconet::jit {

namespace {

/// By hardware thread, the first one of its core; itself, where the system does not say.
std::vector<std::size_t> read_siblings() {
  std::vector<std::size_t> first;
  for (std::size_t thread = 0; thread < Cores().size(); ++thread) {
    std::ifstream file(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", thread));
    std::string list;  // "0,4" or "0-1"
    first.push_back(thread);
    if (std::getline(file, list))
      std::from_chars(list.data(), list.data() + list.size(), first.back());
  }
  return first;
}

/// `cores` with one hardware thread of each core.
Cores without_siblings(const Cores& cores) {
  static const std::vector<std::size_t> first = read_siblings();
  Cores kept, seen;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (!cores.test(core) || seen.test(first[core])) continue;
    kept.set(core);
    seen.set(first[core]);
  }
  return kept;
}

/// Calls see(ranks, cores) for every place where ranks may crowd: how many may run nowhere else, on
/// how many cores. That is where one of them may run, and where any of them may.
template <class See>
void for_each_place(const std::vector<Cores>& by_rank, const See& see) {
  Cores all;
  for (const Cores& cores : by_rank) all |= cores;
  const auto look_at = [&](const Cores& place) {
    if (place.none()) return;
    const auto inside =
        std::ranges::count_if(by_rank, [&](const Cores& cores) { return (cores & ~place).none(); });
    see(static_cast<std::size_t>(inside), place.count());
  };
  for (const Cores& cores : by_rank) look_at(cores);
  look_at(all);
}

/// The most threads of every rank at once for which there is a core each; 0 where ranks crowd.
int room_of_each(const std::vector<Cores>& by_rank) {
  std::size_t least = Cores().size();
  for_each_place(by_rank, [&](std::size_t ranks, std::size_t cores) {
    least = std::min(least, cores / ranks);
  });
  return static_cast<int>(least);
}

/// Of the ranks of the node of `comm`.
std::vector<Cores> gather_cores(Comm& comm) {
  std::vector<Cores> by_rank;
  for (const std::string& text : comm.node().all_gather(available_cores().to_string()))
    by_rank.emplace_back(text);
  return by_rank;
}

/// `by_rank`, and the other processes of the job on this node where none is bound to cores: each of
/// them may have a world of its own.
std::vector<Cores> with_job(std::vector<Cores> by_rank) {
  const Cores own = available_cores();
  const std::size_t processes = std::max(0, told_by_launcher().ranks_of_node);
  const bool is_bound = own.count() < std::thread::hardware_concurrency();
  if (!is_bound) by_rank.resize(std::max(by_rank.size(), processes), own);
  return by_rank;
}

}  // namespace

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
  std::size_t most = 1;
  for_each_place(by_rank, [&](std::size_t ranks, std::size_t cores) {
    most = std::max(most, (ranks + cores - 1) / cores);
  });
  return static_cast<int>(most);
}

bool have_cores(Comm& comm, int threads) {
  const bool crowded = room_of_each(gather_cores(comm)) < threads;
  if (&comm.node() == &comm) return !crowded;
  return !comm.any_failed(crowded, 0);
}

int cores_of_each(const std::vector<Cores>& by_rank) {
  std::vector<Cores> places;
  for (const Cores& cores : by_rank) places.push_back(without_siblings(cores));
  return std::max(1, room_of_each(places));
}

CoresOfRank agree_on_cores(Comm& comm, int wanted) {
  const std::vector<Cores> by_rank = gather_cores(comm);
  const int own = wanted > 0 ? wanted : cores_of_each(with_job(by_rank));
  CoresOfRank agreed{.count = own};
  for (const std::string& text : comm.all_gather(std::to_string(own)))
    agreed.count = std::min(agreed.count, std::stoi(text));
  agreed.crowded = room_of_each(by_rank) < agreed.count;
  return agreed;
}

}  // namespace coconet::jit
