// The memory model of PTX: whether its axioms allow an outcome of what a few threads do in memory.
//
// The axioms are those of the PTX ISA, chapter "Memory Consistency Model", from version 7.5 on
// (with proxies), and of Lustig, Sahasrabuddhe and Giroux, "A Formal Analysis of the NVIDIA PTX
// Memory Consistency Model" (ASPLOS 2019). Sequential consistency per location follows from
// causality where coherence is total, and is no axiom of its own here. Of proxies there is the
// generic one, with aliases: two virtual addresses of one location.
//
// Dependencies count only where a store's value is what was loaded. Control and address
// dependencies are left out, which allows more: what is forbidden here is forbidden with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ptx/closure.h"

namespace coconet::test::ptx {

enum class Scope : std::uint8_t { cta, gpu, sys };
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel, sc };

/// One thing that a thread does.
struct Op {
  enum class Kind : std::uint8_t { load, store, add, exchange, fence, alias_fence, barrier };
  Kind kind = Kind::load;
  Order order = Order::weak;
  Scope scope = Scope::cta;
  int location = -1;        ///< the memory that is accessed
  int address = -1;         ///< the virtual address that it is accessed by
  int result = -1;          ///< register that a load, add or exchange sets
  int operand = -1;         ///< register that is added to `value`
  std::uint64_t value = 0;  ///< what is stored, or added
  int barrier = -1;         ///< all barriers of one number synchronize with each other
  int line = -1;            ///< accesses of one number are parts of one access of a line
};

struct Thread {
  int gpu = 0;
  int cta = 0;  ///< on its GPU
  std::vector<Op> ops;
};

/// What an op is to the axioms; an add or exchange is a read and a write.
struct Event {
  enum class Kind : std::uint8_t { read, write, fence, alias_fence, barrier };
  Kind kind = Kind::write;
  int thread = -1;  ///< or -1: the initial zero of a location
  const Op* op = nullptr;
  Order order = Order::weak;
  int location = -1;
  int partner = -1;  ///< the other event of an add or exchange
};

/// What an execution ends with.
struct Outcome {
  std::vector<std::uint64_t> registers;
  /// By location, the values of writes that no other write follows.
  std::map<int, std::set<std::uint64_t>> last;
};

class Model {
 public:
  /// `whole_lines`: loads of one line see stores of one line only. PTX does not promise that.
  explicit Model(std::vector<Thread> threads, bool whole_lines = false);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const std::vector<Event>& events() const { return events_; }
  /// The event of kind read or write of an op.
  [[nodiscard]] int event(const Op& op, Event::Kind kind) const;
  [[nodiscard]] const std::vector<Thread>& threads() const { return threads_; }

  /// Whether two events are what the ISA calls so. Where they are not, and one writes what the
  /// other accesses, they race.
  [[nodiscard]] bool morally_strong(int a, int b) const;

  /// For each event that is a read, the writes that it may take its value from.
  using Sources = std::vector<std::vector<int>>;
  /// Any write to the location.
  [[nodiscard]] Sources all_sources() const;
  /// Whether the axioms allow an execution with such sources that `wanted` holds of.
  [[nodiscard]] bool allows(const Sources& sources,
                            const std::function<bool(const Outcome&)>& wanted) const;

 private:
  struct Execution;
  using Coherence = std::set<std::pair<int, int>>;  ///< of the writes to one location

  /// What was found of a location.
  struct Settled {
    std::shared_ptr<const Closure> base;
    std::vector<int> sources;  ///< of its reads
    std::vector<Coherence> coherences;
  };

  void add_events(int thread, const Op& op);
  void relate();
  void find_patterns(int a, int b);
  [[nodiscard]] bool is_strong(const Event& event) const;
  [[nodiscard]] bool includes(const Event& event, int thread) const;
  [[nodiscard]] bool try_sources(const Sources& sources, std::size_t next, Execution& execution,
                                 const std::function<bool(const Outcome&)>& wanted) const;
  [[nodiscard]] bool has_whole_lines(const Execution& execution) const;
  [[nodiscard]] bool find_values(Execution& execution) const;
  [[nodiscard]] bool find_value(Execution& execution, int write, std::set<int>& open) const;
  [[nodiscard]] bool is_consistent(Execution& execution,
                                   const std::function<bool(const Outcome&)>& wanted) const;
  [[nodiscard]] std::vector<int> observed(const Execution& execution, int read) const;
  void find_causality(Execution& execution) const;
  [[nodiscard]] bool precedes(const Execution& execution, int a, int b) const;
  [[nodiscard]] bool causes(const Execution& execution, int a, int b) const;
  static bool close_coherence(Coherence& coherence, const std::vector<int>& writes);
  [[nodiscard]] std::pair<int, int> unordered(const Coherence& coherence,
                                              const std::vector<int>& writes) const;
  const std::vector<Coherence>& coherences_of(const Execution& execution, int location) const;
  void add_coherences(const Execution& execution, int location, Coherence coherence,
                      std::vector<Coherence>& found) const;
  [[nodiscard]] bool try_coherences(Execution& execution,
                                    std::map<int, std::vector<int>>::const_iterator location,
                                    const std::function<bool(const Outcome&)>& wanted) const;
  [[nodiscard]] bool has_causality(const Execution& execution, int location,
                                   const Coherence& coherence) const;
  [[nodiscard]] Outcome outcome(const Execution& execution) const;

  std::vector<Thread> threads_;
  bool whole_lines_;
  std::vector<Event> events_;
  std::vector<int> reads_;
  std::vector<int> sc_fences_;
  std::vector<int> alias_fences_;
  std::map<const Op*, int> first_event_;
  std::map<int, std::vector<int>> writes_;    ///< by location, the initial one first
  std::vector<std::vector<int>> releases_;    ///< by write: what begins a release pattern there
  std::vector<std::vector<int>> acquires_;    ///< by read: what ends an acquire pattern there
  std::map<int, std::vector<int>> reads_of_;  ///< by location
  Pairs order_;                               ///< program order, step by step, and barriers
  mutable Pairs synchronized_;                ///< of the last execution
  mutable std::shared_ptr<const Closure> base_;
  mutable std::map<int, Settled> settled_;
  int registers_ = 0;
};

}  // namespace coconet::test::ptx
