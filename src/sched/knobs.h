// Knobs of kernels: their defaults and checks, and what follows from them for a plan.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coconet/schedule.h"
#include "ir/knobs.h"

namespace coconet::sched {

using ir::KnobChoice;
/// Names and summaries of algorithms.def, in table order.
[[nodiscard]] inline std::span<const KnobChoice> algorithm_choices() {
  return ir::algorithm_choices;
}
[[nodiscard]] inline std::span<const KnobChoice> protocol_choices() {
  return ir::protocol_choices;
}

/// `knobs` with what is empty replaced by the default.
[[nodiscard]] Knobs with_defaults(Knobs knobs);

/// Throws ScheduleError naming the knob, its value and what it takes.
void check_knobs(const Knobs& knobs);

/// Whether kernels read and write the tensors of other ranks where they are, so that these must be
/// in memory that all ranks reach. Else ranks send each other chunks through mailboxes.
[[nodiscard]] bool works_in_place(const Knobs& knobs);

/// Whether they do so through a multicast pointer, an address behind which the tensors of all ranks
/// are.
[[nodiscard]] bool uses_multicast(const Knobs& knobs);

/// Why the algorithm and the protocol do not go together; empty where they do.
[[nodiscard]] std::string conflict_in(const Knobs& knobs);

/// `program` with the knobs that `set` has, those of the environment, in place of its kernels' own.
[[nodiscard]] Program with_knobs(const Program& program, const Knobs& set);

}  // namespace coconet::sched
