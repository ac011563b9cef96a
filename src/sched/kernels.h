// What a kernel may hold: the rules that each kernel of a scheduled program keeps, when a step
// makes it and after every later step.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace coconet::sched {

/// The kind of a kernel of the values called `ops`; names that no value has say nothing.
[[nodiscard]] ir::Fusion::Kind kind_of(const ir::Graph& graph, const std::vector<std::string>& ops);

/// The collective of a kernel: data of all ranks is combined, the computation works on the result,
/// and what it makes is spread to other ranks. Either half may be missing.
struct Collective {
  ir::ValueId combine = -1;  ///< the reduce_scatter or reduce; the all_reduce where that is all
  ir::ValueId spread = -1;   ///< the all_gather, broadcast or send
  ir::ValueId domain = -1;   ///< a value of the computation's shape and layout; -1: there is none
  int axis = 0;              ///< the mesh axis
};
/// The collective among `members` of a kernel. Throws ScheduleError when there are two on one side.
[[nodiscard]] Collective find_collective(const ir::Graph& graph,
                                         const std::set<ir::ValueId>& members);

/// Whether a kernel around `collective` can compute reduction `id`: it is over all elements of a
/// tensor of the kernel's domain, of which every rank has its slice, or the whole.
[[nodiscard]] bool reduces_domain(const ir::Graph& graph, const Collective& collective,
                                  ir::ValueId id);

/// Whether what computes `node` must know where buffers end.
[[nodiscard]] bool tells_buffers(const ir::Node& node);

/// Whether `id` has an element for each buffer of what `domain` has all elements of.
[[nodiscard]] bool is_per_buffer(const ir::Graph& graph, ir::ValueId domain, ir::ValueId id);

/// Whether `id` is a single element beside the many of `domain`, or one for each buffer: what a
/// tensor was reduced to, or computed from such.
[[nodiscard]] bool is_scalar(const ir::Graph& graph, ir::ValueId domain, ir::ValueId id);

/// Whether what `id`, one of `members`, makes leaves a kernel of them: it writes a state, is an
/// output, or is read elsewhere.
[[nodiscard]] bool leaves(const ir::Graph& graph, const std::set<ir::ValueId>& members,
                          ir::ValueId id);

/// Throws ScheduleError with the rule that is broken when `members` cannot run as one kernel,
/// beside the kernels that `graph` has.
void check_kernel(const ir::Graph& graph, const std::set<ir::ValueId>& members);

/// Checks all kernels of `graph`: a rewrite may have changed what they hold, and a program file may
/// say anything.
void check_kernels(const ir::Graph& graph);

}  // namespace coconet::sched
