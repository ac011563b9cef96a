// A variant: a schedule out of a program's space, and what it leaves open.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "coconet/schedule.h"
#include "jit/platform/platform.h"
#include "sched/tune/space.h"

namespace coconet::jit {

struct Variant {
  std::size_t candidate = 0;  ///< of the space
  Knobs knobs = {};           ///< which replace those of its kernels
  bool by_mpi = false;        ///< library collectives on the host are MPI's, whatever the bytes
  bool operator==(const Variant&) const = default;
};

/// For people: its steps, and what else it sets.
[[nodiscard]] std::string describe(const sched::Space& space, const Variant& variant);
/// The schedule of a variant.
[[nodiscard]] Schedule schedule_of(const sched::Space& space, const Variant& variant,
                                   const std::string& name);

/// Searches around the quickest schedule, one after the other.
constexpr int knob_rounds = 2;
/// The knobs to try around `best`: in the first round how ranks exchange data, in the second the
/// width of accesses and, with mailboxes, what goes through them at a time.
[[nodiscard]] std::vector<Variant> knob_variants(const sched::Space& space, const Variant& best,
                                                 const Traits& traits, int round);

}  // namespace coconet::jit
