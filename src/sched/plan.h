// The plan: a scheduled program as ordered steps over buffers, ready for code generation. It holds
// no sizes and no rank: one plan serves all ranks and all extents.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/factors.h"
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
  /// Of a temporary: the input or output that holds the same, as a collective over one rank makes
  /// one of the other. Both have one memory unless the application binds its own; -1: none.
  BufferId same_as = -1;
  bool peer_access = false;    ///< other ranks read or write it from inside a kernel
  bool multicast = false;      ///< they do so through a multicast pointer
  bool in_collective = false;  ///< of a library collective, which is faster in peer memory
  bool scattered = false;      ///< its elements are those of several buffers, in order
};

/// One generated kernel.
struct KernelStep {
  struct Load {
    ir::ValueId value = -1;
    BufferId buffer = -1;
    bool combined = false;  ///< the operand of `combine`, of every rank of the axis
    bool arriving = false;  ///< made tile by tile by a step that runs at the same time
    bool viewed = false;    ///< `value` is a view, and `buffer` has its operand
    /// The view through which `buffer` is read; -1: it is read as it is.
    [[nodiscard]] ir::ValueId view() const { return viewed ? value : -1; }
  };
  struct Store {
    ir::ValueId value = -1;  ///< a member, or a loaded value
    BufferId buffer = -1;
    bool spread = false;     ///< what `spread` hands to other ranks of the axis
    bool departing = false;  ///< taken tile by tile by a step that runs at the same time
  };
  /// One pass over the domain. What a later phase needs of an earlier one it loads again.
  struct Phase {
    std::vector<ir::ValueId> scalars;  ///< single elements, computed before the pass
    std::vector<ir::ValueId> members;  ///< computed at each element, in order
    std::vector<Load> loads;
    std::vector<Store> stores;
    /// Reductions of values of this phase over all of the domain and, where it is sliced, over the
    /// ranks of the axis. Their results are scalars of the next phase.
    std::vector<ir::ValueId> reductions;
  };
  std::string name;
  std::string kind;            ///< a Fusion::Kind, or "reduction"
  bool is_collective = false;  ///< its ranks along `axis` exchange data
  bool in_place = false;       ///< they do so in each other's tensors, not through mailboxes
  bool multicast = false;      ///< in place, and through a multicast pointer
  ir::ValueId combine = -1;    ///< the reduce_scatter or reduce before the computation, or -1
  ir::ValueId spread = -1;     ///< the all_gather, broadcast or send after it, or -1
  /// The value whose shape and layout the kernel iterates over; the operand, for a reduction.
  ir::ValueId domain = -1;
  int axis = 0;                      ///< of a collective: the mesh axis
  std::vector<Load> scalar_loads;    ///< single elements, loaded once
  std::vector<Store> scalar_stores;  ///< single elements, stored at the end
  std::vector<Phase> phases;         ///< at least one
  Knobs knobs;

  [[nodiscard]] bool is_reduction() const { return kind == "reduction"; }
  /// Of all phases; what several phases load is listed for each.
  [[nodiscard]] std::vector<Load> loads() const;
  [[nodiscard]] std::vector<Store> stores() const;
  /// All that it computes, reductions included.
  [[nodiscard]] std::vector<ir::ValueId> computed() const;
  /// The reductions inside the kernel, in order.
  [[nodiscard]] std::vector<ir::ValueId> reductions() const;
};

/// One collective of the world's library, from one buffer to another.
struct LibraryStep {
  std::string name;
  ir::ValueId value = -1;  ///< the collective; its op and attributes say what is done
  BufferId in = -1;
  BufferId out = -1;
};

/// One matmul of the backend's library: the products of the matrices in `a` and `b`, with a bias or
/// without.
struct MatmulStep {
  std::string name;
  ir::ValueId value = -1;  ///< the matmul; its attributes say what is transposed
  BufferId a = -1;
  BufferId b = -1;
  BufferId bias = -1;  ///< one row, added to each of the product's; -1: there is none
  BufferId out = -1;
  bool departing = false;  ///< `out` is taken tile by tile by a step that runs at the same time
};

using PlanStep = std::variant<KernelStep, LibraryStep, MatmulStep>;

/// Steps that run at once, each taking what the one before makes tile by tile. One after the other
/// they do the same.
struct Overlap {
  std::size_t first = 0;  ///< index of a step
  std::size_t count = 0;
  std::set<std::string> takers;  ///< the kernels that take tiles, as the schedule calls them
};

/// Integers that the application gives, which are indices below `extent`, or `also`.
struct IndexRange {
  BufferId buffer = -1;
  Dim extent;
  std::optional<std::int64_t> also = {};
};

struct Plan {
  ir::Graph graph;              ///< the program that the steps' value ids belong to
  Indexed<PlanBuffer> buffers;  ///< by BufferId
  std::vector<PlanStep> steps;
  std::vector<Overlap> overlaps;  ///< in order
  /// The buffers that the application sees: inputs, states and outputs, by name.
  std::map<std::string, BufferId, std::less<>> named;

  std::vector<IndexRange> ranges;  ///< what COCONET_CHECK=1 looks at

  /// The overlap that step `index` is in; null where it is in none.
  [[nodiscard]] const Overlap* overlap_of(std::size_t index) const {
    for (const Overlap& overlap : overlaps) {
      if (index >= overlap.first && index - overlap.first < overlap.count) return &overlap;
    }
    return nullptr;
  }
};

/// A tensor in memory, as a kernel goes through it.
struct Seen {
  const Shape& shape;
  const ir::Placements& layout;
};
/// `buffer`, or the reshape `view` through which a kernel reads it (-1: as it is), whose elements
/// are in the same order.
[[nodiscard]] Seen seen_in(const Plan& plan, BufferId buffer, ir::ValueId view = -1);
/// Which dimension of the domain of `step` each dimension of `seen_in` is, where the kernel reads
/// `buffer` through `view`.
[[nodiscard]] ir::Factors factors_in(const Plan& plan, const KernelStep& step, BufferId buffer,
                                     ir::ValueId view = -1);

/// Lowers a scheduled program. Throws ScheduleError when one of its kernels breaks a rule, which
/// only a program file can make it do.
[[nodiscard]] Plan lower(const ir::Graph& graph);

/// The plan as text: buffers, then one block per step.
[[nodiscard]] std::string print(const Plan& plan);

}  // namespace coconet::sched
