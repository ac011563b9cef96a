// What no order can be found for, among things that need each other.
#pragma once

#include <cstddef>
#include <vector>

namespace coconet::sched {

/// For each of several things whether it is on a cycle of needs or behind one: false for those that
/// can be put behind all that they need. `needs` has for each the places of those that it needs.
template <class Needs>
[[nodiscard]] std::vector<bool> behind_cycles(const std::vector<Needs>& needs) {
  std::vector<std::vector<std::size_t>> needed_by(needs.size());
  std::vector<std::size_t> missing(needs.size());
  std::vector<std::size_t> ready;
  for (std::size_t one = 0; one < needs.size(); ++one) {
    for (const int need : needs[one]) needed_by[static_cast<std::size_t>(need)].push_back(one);
    missing[one] = needs[one].size();
    if (needs[one].empty()) ready.push_back(one);
  }
  std::vector<bool> remaining(needs.size(), true);
  while (!ready.empty()) {
    const std::size_t one = ready.back();
    ready.pop_back();
    remaining[one] = false;
    for (const std::size_t reader : needed_by[one]) {
      if (--missing[reader] == 0) ready.push_back(reader);
    }
  }
  return remaining;
}

}  // namespace coconet::sched
