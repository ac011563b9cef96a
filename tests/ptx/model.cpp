// Enumerating executions: every choice of the write that each read takes its value from, of the
// order of fence.sc, and of the coherence of writes that the axioms leave open.
#include "ptx/model.h"

#include <algorithm>

namespace coconet::test::ptx {

/// A choice, and what follows from it.
struct Model::Execution {
  explicit Execution(std::size_t events)
      : source(events, -1), value(events), has_value(events), observed(events) {}
  std::vector<int> source;  ///< by read
  std::vector<std::uint64_t> value;
  std::vector<bool> has_value;
  std::vector<std::vector<int>> observed;     ///< by read: writes before it in observation order
  std::vector<int> fences;                    ///< fence.sc in their order
  std::shared_ptr<const Closure> base;        ///< base causality
  std::map<int, const Coherence*> coherence;  ///< by location
};

Model::Sources Model::all_sources() const {
  Sources sources(events_.size());
  for (const int read : reads_) {
    for (const int write : writes_.at(events_[read].location)) {
      if (write != events_[read].partner) sources[read].push_back(write);
    }
  }
  return sources;
}

bool Model::allows(const Sources& sources,
                   const std::function<bool(const Outcome&)>& wanted) const {
  Execution execution(events_.size());
  return try_sources(sources, 0, execution, wanted);
}

bool Model::try_sources(const Sources& sources, std::size_t next, Execution& execution,
                        const std::function<bool(const Outcome&)>& wanted) const {
  if (next < reads_.size()) {
    const int read = reads_[next];
    return std::ranges::any_of(sources[read], [&](int source) {
      execution.source[read] = source;
      return try_sources(sources, next + 1, execution, wanted);
    });
  }
  if (!has_whole_lines(execution) || !find_values(execution)) return false;
  for (const int read : reads_) execution.observed[read] = observed(execution, read);
  execution.fences = sc_fences_;
  do {
    if (is_consistent(execution, wanted)) return true;
  } while (std::ranges::next_permutation(execution.fences).found);
  return false;
}

bool Model::has_whole_lines(const Execution& execution) const {
  if (!whole_lines_) return true;
  std::map<int, int> seen;  // by line that is loaded
  return std::ranges::all_of(reads_, [&](int read) {
    const int line = events_[read].op->line;
    if (line < 0) return true;
    const Event& source = events_[execution.source[read]];
    const int from = source.thread < 0 ? -1 : source.op->line;
    return seen.emplace(line, from).first->second == from;
  });
}

/// False where values would come out of thin air.
bool Model::find_values(Execution& execution) const {
  std::fill(execution.has_value.begin(), execution.has_value.end(), false);
  for (const int read : reads_) {
    std::set<int> open;
    if (!find_value(execution, execution.source[read], open)) return false;
    execution.value[read] = execution.value[execution.source[read]];
  }
  for (const auto& [location, writes] : writes_) {
    for (const int write : writes) {
      std::set<int> open;
      if (!find_value(execution, write, open)) return false;
    }
  }
  return true;
}

bool Model::find_value(Execution& execution, int write, std::set<int>& open) const {
  const Event& event = events_[write];
  if (event.thread < 0 || execution.has_value[write]) return true;
  if (!open.insert(write).second) return false;
  const auto add = [&](int read) {
    if (!find_value(execution, execution.source[read], open)) return false;
    execution.value[write] += execution.value[execution.source[read]];
    return true;
  };
  execution.value[write] = event.op->value;
  if (event.partner >= 0 && event.op->kind == Op::Kind::add && !add(event.partner)) return false;
  if (event.op->operand >= 0) {
    const auto sets = [&](int read) {
      return events_[read].thread == event.thread && events_[read].op->result == event.op->operand;
    };
    const auto read = std::ranges::find_if(reads_, sets);
    if (read == reads_.end() || !add(*read)) return false;
  }
  open.erase(write);
  execution.has_value[write] = true;
  return true;
}

/// Through morally strong pairs, and on through adds and exchanges.
std::vector<int> Model::observed(const Execution& execution, int read) const {
  std::vector<int> writes;
  while (read >= 0 && morally_strong(execution.source[read], read)) {
    const int write = execution.source[read];
    if (std::ranges::find(writes, write) != writes.end()) break;
    writes.push_back(write);
    read = events_[write].partner;
  }
  return writes;
}

void Model::find_causality(Execution& execution) const {
  Pairs synchronized;
  for (const int read : reads_) {
    for (const int write : execution.observed[read]) {
      for (const int release : releases_[write]) {
        for (const int acquire : acquires_[read]) {
          if (morally_strong(release, acquire)) synchronized.emplace_back(release, acquire);
        }
      }
    }
  }
  for (std::size_t i = 0; i < execution.fences.size(); ++i) {
    for (std::size_t j = i + 1; j < execution.fences.size(); ++j) {
      if (morally_strong(execution.fences[i], execution.fences[j]))
        synchronized.emplace_back(execution.fences[i], execution.fences[j]);
    }
  }
  // Many executions differ in what weak loads see alone.
  if (base_ == nullptr || synchronized != synchronized_) {
    Pairs pairs = order_;
    pairs.insert(pairs.end(), synchronized.begin(), synchronized.end());
    base_ = std::make_shared<Closure>(events_.size(), pairs);
    synchronized_ = std::move(synchronized);
  }
  execution.base = base_;
}

/// In base causality that proxies preserve.
bool Model::precedes(const Execution& execution, int a, int b) const {
  const Event& x = events_[a];
  const Event& y = events_[b];
  if (x.location != y.location || !execution.base->has(a, b)) return false;
  if (x.thread < 0 || x.op->address == y.op->address) return true;
  return std::ranges::any_of(alias_fences_, [&](int fence) {
    return execution.base->has(a, fence) && execution.base->has(fence, b);
  });
}

/// In causality.
bool Model::causes(const Execution& execution, int a, int b) const {
  if (precedes(execution, a, b)) return true;
  const auto reads = reads_of_.find(events_[a].location);
  if (reads == reads_of_.end()) return false;
  return std::ranges::any_of(reads->second, [&](int read) {
    return std::ranges::find(execution.observed[read], a) != execution.observed[read].end() &&
           precedes(execution, read, b);
  });
}

/// That fence.sc has no order against causality needs no check: an execution with such an order is
/// allowed with another one, too, from which less follows.
bool Model::is_consistent(Execution& execution,
                          const std::function<bool(const Outcome&)>& wanted) const {
  find_causality(execution);
  for (const auto& [location, writes] : writes_) {
    if (coherences_of(execution, location).empty()) return false;
  }
  execution.coherence.clear();
  return try_coherences(execution, writes_.begin(), wanted);
}

/// Every coherence of a location that the axioms allow, which depends on no other location. Many
/// executions differ in what is seen of one location.
const std::vector<Model::Coherence>& Model::coherences_of(const Execution& execution,
                                                          int location) const {
  std::vector<int> sources;
  if (const auto reads = reads_of_.find(location); reads != reads_of_.end()) {
    for (const int read : reads->second) sources.push_back(execution.source[read]);
  }
  Settled& settled = settled_[location];
  if (settled.base == execution.base && settled.sources == sources) return settled.coherences;
  settled = {execution.base, std::move(sources), {}};
  const std::vector<int>& writes = writes_.at(location);
  Coherence coherence;
  for (const int a : writes) {
    for (const int b : writes) {
      if (a == b || events_[b].thread < 0) continue;
      if (events_[a].thread < 0 || causes(execution, a, b)) coherence.emplace(a, b);
    }
  }
  add_coherences(execution, location, std::move(coherence), settled.coherences);
  return settled.coherences;
}

/// Adds to the coherence of a location what follows by transitivity. False where it is cyclic.
bool Model::close_coherence(Coherence& coherence, const std::vector<int>& writes) {
  for (const int k : writes) {
    for (const int i : writes) {
      for (const int j : writes) {
        if (coherence.contains({i, k}) && coherence.contains({k, j})) coherence.emplace(i, j);
      }
    }
  }
  return std::ranges::none_of(writes, [&](int w) { return coherence.contains({w, w}); });
}

/// Two writes of `writes` that coherence must order, and does not; -1 where there are none.
std::pair<int, int> Model::unordered(const Coherence& coherence,
                                     const std::vector<int>& writes) const {
  for (const int a : writes) {
    for (const int b : writes) {
      if (a < b && morally_strong(a, b) && !coherence.contains({a, b}) &&
          !coherence.contains({b, a}))
        return {a, b};
    }
  }
  return {-1, -1};
}

/// Coherence is no more than causality and one order or the other of writes that are morally
/// strong: with less of it fewer reads are forbidden.
void Model::add_coherences(const Execution& execution, int location, Coherence coherence,
                           std::vector<Coherence>& found) const {
  const std::vector<int>& writes = writes_.at(location);
  if (!close_coherence(coherence, writes)) return;
  const auto [a, b] = unordered(coherence, writes);
  if (a < 0) {
    if (has_causality(execution, location, coherence)) found.push_back(std::move(coherence));
    return;
  }
  Coherence other = coherence;
  coherence.emplace(a, b);
  other.emplace(b, a);
  add_coherences(execution, location, std::move(coherence), found);
  add_coherences(execution, location, std::move(other), found);
}

bool Model::try_coherences(Execution& execution,
                           std::map<int, std::vector<int>>::const_iterator location,
                           const std::function<bool(const Outcome&)>& wanted) const {
  if (location == writes_.end()) return wanted(outcome(execution));
  const auto& coherences = coherences_of(execution, location->first);
  return std::ranges::any_of(coherences, [&](const Coherence& coherence) {
    execution.coherence[location->first] = &coherence;
    return try_coherences(execution, std::next(location), wanted);
  });
}

/// The axioms of causality and atomicity.
bool Model::has_causality(const Execution& execution, int location,
                          const Coherence& coherence) const {
  const auto reads = reads_of_.find(location);
  if (reads == reads_of_.end()) return true;
  return std::ranges::all_of(reads->second, [&](int read) {
    const int source = execution.source[read];
    if (causes(execution, read, source)) return false;
    return std::ranges::all_of(writes_.at(location), [&](int write) {
      if (!coherence.contains({source, write})) return true;
      const int own = events_[read].partner;
      const bool divides = own >= 0 && coherence.contains({write, own}) &&
                           morally_strong(read, write) && morally_strong(write, own);
      return !divides && !causes(execution, write, read);
    });
  });
}

Outcome Model::outcome(const Execution& execution) const {
  Outcome outcome;
  outcome.registers.resize(registers_);
  for (const int read : reads_) {
    if (const int result = events_[read].op->result; result >= 0)
      outcome.registers[result] = execution.value[read];
  }
  for (const auto& [location, writes] : writes_) {
    const Coherence& coherence = *execution.coherence.at(location);
    for (const int a : writes) {
      const auto follows = [&](int b) { return coherence.contains({a, b}); };
      if (std::ranges::none_of(writes, follows)) outcome.last[location].insert(execution.value[a]);
    }
  }
  return outcome;
}

}  // namespace coconet::test::ptx
