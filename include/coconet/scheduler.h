// Schedules written with handles: every call applies one transformation to a program, checks it at
// once, and returns the values that it made.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "coconet/export.h"
#include "coconet/program.h"
#include "coconet/schedule.h"

namespace coconet {

/// Values for a Scheduler, by handle or by name. Handles of the program and of what earlier calls
/// returned stay good: a value keeps its name through a schedule.
class COCONET_API Handles {
 public:
  /// None.
  Handles() = default;
  /// One, of a program or of an earlier call.
  Handles(const Value& value);  // NOLINT: by design
  /// One, by name.
  template <class Name>
  requires std::is_convertible_v<const Name&, std::string> Handles(const Name& name)
      : handles_{{std::string(name), nullptr, false}} {}  // NOLINT: by design
  /// Several, in order.
  Handles(std::initializer_list<Handles> all) {
    for (const Handles& one : all)
      handles_.insert(handles_.end(), one.handles_.begin(), one.handles_.end());
  }

  /// How many.
  [[nodiscard]] std::size_t size() const { return handles_.size(); }
  /// Their names, in order.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  friend class Scheduler;
  struct Handle {
    std::string name;
    std::shared_ptr<ir::Graph> graph;  ///< null for a name
    bool may_be_gone = false;          ///< made by a call, and dropped by a later one
  };
  std::vector<Handle> handles_;
};

/// Builds a Schedule for one program, step by step. Every call throws ScheduleError, with the
/// reason and what would be legal, and changes nothing when its step is not legal there, or a
/// handle is of another program. Not for several threads at a time.
class COCONET_API Scheduler {
 public:
  /// Of `program`, which stays as it is.
  explicit Scheduler(const Program& program, std::string name = "unnamed");
  ~Scheduler();
  /// What is moved from may be assigned to or destroyed only.
  Scheduler(Scheduler&&) noexcept;
  /// What is moved from may be assigned to or destroyed only.
  Scheduler& operator=(Scheduler&&) noexcept;

  /// `Schedule::split` of an all_reduce into a reduce_scatter, sliced along dimension `dim`, and an
  /// all_gather, which are returned.
  std::pair<Value, Value> split(const Handles& all_reduce, int dim = 0);
  /// Splits an all_reduce into a reduce to the first rank and a broadcast.
  std::pair<Value, Value> split_at_root(const Handles& all_reduce);
  /// Splits an all_reduce of an all_reduce along another axis into a reduce_scatter and an
  /// all_gather along that axis, and an all_reduce of slices: reduce_scatter, all_reduce,
  /// all_gather.
  std::tuple<Value, Value, Value> split_hierarchical(const Handles& all_reduce, int dim = 0);
  /// `Schedule::reorder`: moves the computation between `all_gather` and `before` in front of it.
  /// Returns what is gathered afterwards; those of them that a later call drops are left out where
  /// they are named.
  Handles reorder(const Handles& all_gather, const Handles& before);
  /// `Schedule::as_slice`: keeps a replicated state sliced.
  void as_slice(const Handles& state);
  /// `Schedule::dead`: drops every value that nothing reads.
  void dead();
  /// `Schedule::fuse`: one kernel of `ops` and the pointwise ops that they read. Its kind is that
  /// of the collectives among them. Returns `kernel`.
  std::string fuse(const std::string& kernel, const Handles& ops, const Knobs& knobs = {});
  /// `Schedule::overlap`: runs named kernels at the same time, of which the first may be a matmul.
  void overlap(const Handles& steps);

  /// The steps so far.
  [[nodiscard]] const Schedule& schedule() const;
  /// The program after them.
  [[nodiscard]] const Program& program() const;
  /// The value of that name there. Throws ScheduleError, naming the nearest.
  [[nodiscard]] Value value(std::string_view name) const;
  /// Steps that are legal now, each as text with the names that it takes: what a tuner would try
  /// next (docs/schedules.md, "What is legal next"). Other reorders and kernels may be legal, too.
  [[nodiscard]] std::vector<std::string> legal() const;

 private:
  /// The names of `handles` in the program as it is, checked.
  [[nodiscard]] std::vector<std::string> resolve(const Handles& handles, const char* call) const;
  [[nodiscard]] std::string resolve_one(const Handles& handles, const char* call) const;
  void apply(Schedule next);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coconet
