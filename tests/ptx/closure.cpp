// Transitive closures by Tarjan's algorithm.
#include "ptx/closure.h"

#include <algorithm>

namespace coconet::test::ptx {

// Tarjan's algorithm finds components after those that they reach, so that what a component reaches
// is known when it is found.
Closure::Closure(std::size_t events, const Pairs& pairs)
    : words_((events + 63) / 64),
      next_(events),
      component_(events, -1),
      index_(events, -1),
      low_(events) {
  for (const auto& [from, to] : pairs) next_[from].push_back(to);
  for (std::size_t event = 0; event < events; ++event) {
    if (index_[event] < 0) visit(static_cast<int>(event));
  }
}

void Closure::visit(int event) {
  index_[event] = low_[event] = static_cast<int>(open_.size());
  const int depth = index_[event];
  open_.push_back(event);
  for (const int next : next_[event]) {
    if (index_[next] < 0) visit(next);
    if (component_[next] < 0) low_[event] = std::min(low_[event], low_[next]);
  }
  if (low_[event] == depth) add_component(event);
}

void Closure::add_component(int root) {
  const std::vector<int> members(open_.begin() + index_[root], open_.end());
  open_.resize(index_[root]);
  const auto number = static_cast<int>(reached_.size() / words_);
  reached_.resize(reached_.size() + words_);
  std::uint64_t* const row = &reached_[number * words_];
  for (const int member : members) component_[member] = number;
  for (const int member : members) {
    for (const int next : next_[member]) {
      row[next / 64] |= std::uint64_t{1} << (next % 64);
      if (component_[next] == number) continue;
      const std::uint64_t* const further = &reached_[component_[next] * words_];
      for (std::size_t word = 0; word < words_; ++word) row[word] |= further[word];
    }
  }
}

}  // namespace coconet::test::ptx
