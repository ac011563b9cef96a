// Code generation: one kernel step of a plan becomes kernel text in the dialect of the prelude, and
// a list of what its argument block holds. Deterministic: the same program and schedule give the
// same bytes in any process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sched/plan.h"

namespace coconet::jit {

/// One field of a kernel's argument block.
struct KernelArgument {
  enum class Kind : std::uint8_t {
#define COCONET_ARGUMENT(kind, field, head, by_rank) kind,
#include "jit/codegen/arguments.def"
#undef COCONET_ARGUMENT
  };
  Kind kind = Kind::pointer;
  std::string name;  ///< the field's name in the text
  sched::BufferId buffer = -1;
  ir::ValueId value = -1;  ///< number: the weak value; offset, stride: see there
  int dim = 0;
};

/// Bytes of a field of `kind` where the kernel's axis has `ranks` ranks.
[[nodiscard]] std::size_t bytes_of(KernelArgument::Kind kind, std::size_t ranks);

/// A generated kernel.
struct KernelText {
  std::string name;  ///< the step's
  std::string
      entry;  ///< the entry point's symbol; never a word of C++ or a function of its library
  std::string source;                ///< without the prelude
  std::vector<std::string> headers;  ///< of the prelude, that not every kernel needs
  std::vector<KernelArgument> arguments;
  int barriers = 0;  ///< epochs of `Sync` that a launch uses
  bool linear =
      true;  ///< all tensors lie in memory as the domain does; else the kernel goes row by row
  int row_dims = 1;            ///< last dimensions of the domain that make such a row
  bool reduces_whole = false;  ///< a reduction of all elements, or of all buckets, to one result
  bool by_bucket = false;      ///< some tensors are scattered, and the kernel goes bucket by bucket
  int first_barrier = 0;  ///< of those, the one at which ranks meet first; 1: that of the totals
};

/// The reductions inside a kernel.
struct TotalsOf {
  int whole = 0;               ///< of all elements
  int per_buffer = 0;          ///< of each buffer
  bool counts_blocks = false;  ///< the last block is told apart, in memory of the totals
};
[[nodiscard]] TotalsOf totals_of(const ir::Graph& graph, const sched::KernelStep& step);
/// Whether the kernel of `step` reduces each buffer, or stores a number for each.
[[nodiscard]] bool tells_buffers_in(const sched::KernelStep& step, const ir::Graph& graph);

/// Generates the text of `step`. Throws ScheduleError for knobs that name no algorithm or protocol.
[[nodiscard]] KernelText generate(const sched::Plan& plan, const sched::KernelStep& step);

/// The kernels of `plan`, in execution order.
[[nodiscard]] std::vector<KernelText> generate(const sched::Plan& plan);

/// A kernel that reduces the tensors of `ranks` ranks, element by element and in rank order, into
/// `results` tensors. Its argument block is in[ranks], out[results], count, mode.
[[nodiscard]] KernelText write_library_reduction(DType dtype, Reduction reduction, int ranks,
                                                 int results);

/// A kernel that signals that elements of a tensor are made, to a step that takes its tiles. Its
/// argument block is Tiles, then the first element and the end.
[[nodiscard]] KernelText write_tile_signal();
/// Its name.
inline constexpr std::string_view tile_signal_name = "signal_tiles";

/// Elements that a lane of the kernel of `step` moves together, the W of its text, where the
/// prelude's VECTOR_BYTES is `vector_bytes`.
[[nodiscard]] int lanes_of(const sched::Plan& plan, const sched::KernelStep& step,
                           int vector_bytes);
/// Bytes of the largest element that its loops load or store.
[[nodiscard]] int widest_element(const sched::Plan& plan, const sched::KernelStep& step);

/// What every kernel of `target` ("host", "host_threads" or "cuda") is written over, and the
/// further `headers`.
[[nodiscard]] std::string prelude(std::string_view target,
                                  std::span<const std::string> headers = {});

/// What that prelude is made of: a line for each header, its name and the SHA-256 of its text.
[[nodiscard]] std::string prelude_digests(std::string_view target,
                                          std::span<const std::string> headers);

/// The prelude followed by the kernel: what a compiler is given.
[[nodiscard]] std::string complete_source(const KernelText& kernel, std::string_view target);

/// The op that line `line` (from 1) of `complete_source` belongs to, by its label; empty when it is
/// in the prelude.
[[nodiscard]] std::string op_at_line(std::string_view source, int line);

}  // namespace coconet::jit
