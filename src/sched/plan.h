// The plan: a scheduled program as ordered steps over buffers, ready for code generation. It holds no sizes and
// no rank: one plan serves all ranks and all extents.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace coconet::sched {

using BufferId = int;

/// Memory of one tensor on each rank, laid out as `shape` and `layout` say, row-major.
struct PlanBuffer {
  enum class Role : std::uint8_t { input, state, output, temporary };
  std::string name;
  Role role = Role::temporary;
  DType dtype = DType::f32;
  Shape shape;
  ir::Placements layout;
  bool peer_access = false;    ///< other ranks read or write it from inside a kernel
  bool in_collective = false;  ///< of a library collective, which is quicker where ranks reach it
};

/// One generated kernel.
struct KernelStep {
  enum class Kind : std::uint8_t { computation, reduction, all_reduce };
  struct Load {
    ir::ValueId value = -1;
    BufferId buffer = -1;
    bool from_peers =
        false;  ///< the operand of the reduce_scatter: read from every rank of the axis
  };
  struct Store {
    ir::ValueId value = -1;  ///< a member, or a loaded value
    BufferId buffer = -1;
    bool to_peers = false;  ///< the gathered value: written to every rank of the axis
  };
  std::string name;
  Kind kind = Kind::computation;
  /// Values computed, in order: pointwise ops, and the reduce_scatter or the reduction.
  std::vector<ir::ValueId> members;
  /// The value whose shape and layout the kernel iterates over; the operand, for a reduction.
  ir::ValueId domain = -1;
  int axis = 0;  ///< all_reduce: the mesh axis
  std::vector<Load> loads;
  std::vector<Store> stores;
  Knobs knobs;
};
[[nodiscard]] std::string_view to_string(KernelStep::Kind kind);

/// One collective of the world's library, from one buffer to another.
struct LibraryStep {
  std::string name;
  ir::ValueId value = -1;  ///< the collective; its op and attributes say what is done
  BufferId in = -1;
  BufferId out = -1;
};

using PlanStep = std::variant<KernelStep, LibraryStep>;

struct Plan {
  ir::Graph graph;  ///< the program that the steps' value ids belong to
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;
  /// The buffers that the application sees: inputs, states and outputs, by name.
  std::map<std::string, BufferId, std::less<>> named;
};

/// Lowers a scheduled program. Throws ScheduleError when one of its kernels breaks a rule, which only a program file
/// can make it do.
[[nodiscard]] Plan lower(const ir::Graph& graph);

/// The plan as text: buffers, then one block per step.
[[nodiscard]] std::string print(const Plan& plan);

}  // namespace coconet::sched
