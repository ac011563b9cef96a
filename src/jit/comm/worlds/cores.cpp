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

/// The first hardware thread of the core that `thread` is one of; itself, where the system does not
/// say.
std::size_t first_sibling(std::size_t thread) {
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", thread));
  std::string list;  // "0,4" or "0-1"
  std::size_t first = thread;
  if (std::getline(file, list)) std::from_chars(list.data(), list.data() + list.size(), first);
  return first;
}

/// `cores` with one hardware thread of each core.
Cores without_siblings(const Cores& cores) {
  Cores kept, seen;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (!cores.test(core)) continue;
    const std::size_t first = std::min(first_sibling(core), cores.size() - 1);
    if (!seen.test(first)) kept.set(core);
    seen.set(first);
  }
  return kept;
}

/// `times` threads of each rank.
std::vector<Cores> repeated(const std::vector<Cores>& by_rank, int times) {
  std::vector<Cores> all;
  for (const Cores& cores : by_rank) all.insert(all.end(), times, cores);
  return all;
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
  const bool crowded = ranks_per_core(repeated(gather_cores(comm), threads)) > 1;
  if (&comm.node() == &comm) return !crowded;
  return !comm.any_failed(crowded, 0);
}

int cores_of_each(const std::vector<Cores>& by_rank) {
  std::vector<Cores> places;
  for (const Cores& cores : by_rank) places.push_back(without_siblings(cores));
  int threads = 1;
  while (ranks_per_core(repeated(places, threads + 1)) == 1) ++threads;
  return threads;
}

CoresOfRank agree_on_cores(Comm& comm, int wanted) {
  const std::vector<Cores> by_rank = gather_cores(comm);
  const int own = wanted > 0 ? wanted : cores_of_each(with_job(by_rank));
  CoresOfRank agreed{.count = own};
  for (const std::string& text : comm.all_gather(std::to_string(own)))
    agreed.count = std::min(agreed.count, std::stoi(text));
  agreed.crowded = ranks_per_core(repeated(by_rank, agreed.count)) > 1;
  return agreed;
}

}  // namespace coconet::jit
