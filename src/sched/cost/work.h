// What each step of a plan makes a rank do, in bytes and operations: what no machine changes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/extents.h"
#include "sched/plan.h"

namespace coconet::sched {

/// Data that the ranks along a mesh axis exchange in a step.
struct Exchange {
  ir::Op op = ir::Op::all_reduce;  ///< a collective
  int axis = 0;                    ///< of the mesh
  double bytes = 0;  ///< of the whole tensor: that each rank gives to a reduce_scatter, or has
                     ///< after an all_gather
};

/// Bytes that a rank moves for an exchange in which ranks work on each other's tensors: what it
/// reads and writes wherever that is, and what of that other ranks have.
struct Moved {
  double all = 0, remote = 0;
};
[[nodiscard]] Moved moved_by(const Exchange& exchange, int ranks);

/// One step, on the rank that has the most to do.
struct Work {
  std::string name;
  enum class Kind : std::uint8_t { kernel, library, matmul } kind = Kind::kernel;
  double bytes = 0;  ///< read and written in the rank's own memory, but for the exchanges
  std::vector<Exchange> exchanges;
  double jumps = 0;  ///< from the end of a part of a row to the next one, where slices cut rows
  double lines = 0;  ///< bytes that come from other ranks' caches, where ranks share memory
  double operations = 0;     ///< additions and multiplications, or what costs as much
  DType dtype = DType::f32;  ///< of what is computed
  int totals = 0;            ///< of a kernel's reductions, which ranks combine
  bool in_place = false;     ///< a kernel's ranks work in each other's tensors
  std::string way;           ///< how a kernel's ranks exchange data otherwise: "ring, ll"
};

struct PlanWork {
  std::vector<Work> steps;  ///< by the plan's steps
  double footprint = 0;     ///< bytes of all buffers of a rank
};

/// What the steps of `plan` move to and from other ranks' memory, and in all; by step.
[[nodiscard]] std::vector<Moved> traffic_of(const Plan& plan, const PlanWork& work);

/// `sizes` has the extents of all symbols.
[[nodiscard]] PlanWork work_of(const Plan& plan, const ir::Sizes& sizes);

}  // namespace coconet::sched
