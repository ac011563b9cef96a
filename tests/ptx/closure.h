// What follows from pairs of events by transitivity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace coconet::test::ptx {

using Pairs = std::vector<std::pair<int, int>>;

/// What follows from pairs of events by transitivity.
class Closure {
 public:
  Closure(std::size_t events, const Pairs& pairs);
  [[nodiscard]] bool has(int from, int to) const {
    return (reached_[component_[from] * words_ + to / 64] >> (to % 64) & 1) != 0;
  }

 private:
  void visit(int event);
  void add_component(int root);

  std::size_t words_;
  std::vector<std::vector<int>> next_;
  std::vector<int> component_;           ///< by event: those on one cycle share one
  std::vector<std::uint64_t> reached_;   ///< by component, a bit for each event
  std::vector<int> index_, low_, open_;  ///< of Tarjan's search for components
};

}  // namespace coconet::test::ptx
