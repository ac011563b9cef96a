// The schedule: how a program runs, as an ordered list of transformations, in C++ or JSON.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/export.h"

namespace coconet {

class Program;
class Schedule;

/// @cond internal
namespace sched {
struct Steps;
[[nodiscard]] const Steps& steps_of(const Schedule& schedule);
}  // namespace sched
/// @endcond

/// Implementation choices for one kernel that a schedule makes, described by the rows of
/// coconet/knobs.def. Zero and empty mean the library's choice.
struct Knobs {
#define COCONET_NAME_KNOB(name, ...) std::string name;
#define COCONET_NUMBER_KNOB(name, ...) int name = 0;
#include "coconet/knobs.def"
#undef COCONET_NAME_KNOB
#undef COCONET_NUMBER_KNOB
  /// Same choices.
  bool operator==(const Knobs&) const = default;
};

/// An ordered list of transformations. Steps are checked when they are applied to a program, by
/// `compile` or `apply`; an illegal step throws ScheduleError, which names the step, the op, the
/// rule and what is legal. The JSON format is published as docs/schedule.schema.json. Several
/// threads may read a schedule at once, while none changes it.
class COCONET_API Schedule {
 public:
  /// Without steps: runs a program as it is written.
  explicit Schedule(std::string name = "unnamed");
  ~Schedule();
  /// A copy of its own.
  Schedule(const Schedule&);
  /// What is moved from may be assigned to or destroyed only.
  Schedule(Schedule&&) noexcept;
  /// A copy of its own.
  Schedule& operator=(const Schedule&);
  /// What is moved from may be assigned to or destroyed only.
  Schedule& operator=(Schedule&&) noexcept;

  /// Reads a schedule file, or the shipped schedule of that file name ("adam-fused.json") when
  /// there is no such file. Throws ScheduleError with the JSON pointer of what is wrong.
  [[nodiscard]] static Schedule load(const std::filesystem::path& file);
  /// Reads the JSON that `json()` writes. Throws ScheduleError as `load` does.
  [[nodiscard]] static Schedule parse(std::string_view json);
  /// The quickest schedule that is known, which `compile` looks up in the tuning file for the
  /// program, the ranks, the machine and the sizes that it is given, or else likely is
  /// (docs/tuning.md).
  [[nodiscard]] static Schedule automatic();
  /// The schedule as JSON, which `load` and `parse` read.
  [[nodiscard]] std::string json() const;
  /// The name that it was made with, or that its file has.
  [[nodiscard]] const std::string& name() const;

  /// Replaces the all_reduce `op` by several collectives. `into` is "reduce_scatter+all_gather",
  /// giving `op`.reduce_scatter and `op`.all_gather sliced along dimension `dim`;
  /// "reduce+broadcast", giving `op`.reduce and `op`.broadcast; or "hierarchical", for an
  /// all_reduce of an all_reduce along another axis, giving `op`.reduce_scatter and `op`.all_gather
  /// along that axis and `op`.all_reduce, of slices, between them.
  Schedule& split(std::string op, std::string into = "reduce_scatter+all_gather", int dim = 0);
  /// Moves the computation between the all_gather `all_gather` and the values `before` in front of
  /// it, so that it runs on slices; the results that are needed whole are gathered afterwards.
  /// Collectives along other axes move with it.
  Schedule& reorder(std::string all_gather, std::vector<std::string> before);
  /// Keeps the replicated state `state` sliced, so that each rank holds 1/n of it.
  Schedule& as_slice(std::string state);
  /// Drops every value that nothing reads.
  Schedule& dead();
  /// Makes one kernel, called `kernel`, of `ops` and the pointwise ops that they read. `kind` is
  /// what the ops make, "computation", "all_reduce", "reduce_scatter", "all_gather", "reduce",
  /// "broadcast" or "send" (docs/schedules.md#fuse), and is checked; "" says nothing.
  Schedule& fuse(std::string kernel, std::string kind, std::vector<std::string> ops,
                 Knobs knobs = {});

  /// Runs `steps`, named kernels of which the first may be a matmul instead, at the same time: each
  /// consumes the results of the one before tile by tile. All but the first hold a collective. The
  /// results are those of running them in turn.
  Schedule& overlap(std::vector<std::string> steps);

  /// Whether `compile` chooses the steps; there are none until then, and `apply` throws
  /// ScheduleError.
  [[nodiscard]] bool is_automatic() const;
  /// The program after each step, the first one being `program` itself: size() + 1 programs.
  [[nodiscard]] std::vector<Program> apply(const Program& program) const;
  /// Number of steps.
  [[nodiscard]] std::size_t size() const;
  /// Step `index` as text, as errors and `coconet explain` show it.
  [[nodiscard]] std::string step(std::size_t index) const;

 private:
  friend const sched::Steps& sched::steps_of(const Schedule& schedule);
  std::unique_ptr<sched::Steps> steps_;
};

}  // namespace coconet
