// Code generation: one kernel step of a plan becomes kernel text in the dialect of device/*.h, and a list of what
// its argument block holds. Deterministic: the same program and schedule give the same bytes in any process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sched/plan.h"

namespace coconet::jit {

/// One field of a kernel's argument block. Every field is one or more 8-byte words, in order.
struct KernelArgument {
  enum class Kind : std::uint8_t {
    pointer,  ///< `buffer` on this rank; where it is scattered, a list with one for each of its buffers
    pointers,   ///< `buffer` on every rank of the axis: one word each
    multicast,  ///< the prelude's Multicast of `buffer`: ranks + 1 words
    offset,  ///< elements from the start of `buffer`'s part, or of the whole of `value` where there is no
             ///< buffer, to the first element of the kernel's domain
    stride,   ///< elements of the same that one step along dimension `dim` of the domain moves
    extent,   ///< this rank's extent of dimension `dim` of the domain
    count,    ///< elements of this rank's part of the domain
    rows,     ///< product of the extents of all dimensions but the last
    outputs,  ///< reduction: results of this rank
    inner,    ///< reduction: elements that each result combines
    number,   ///< the weak value `value`, as a double
    mode,     ///< the prelude's VECTORIZE and STREAMING
    sync,     ///< the prelude's Sync<ranks>: ranks + 7 words
    totals,   ///< the prelude's Totals<ranks, reductions>: ranks + 1 words
    slices,   ///< the prelude's Slices: 5 words
    mail,     ///< the prelude's Mail<ranks>: ranks + 4 words
    buckets,  ///< the prelude's Buckets of the domain: 2 words
    tiles     ///< the prelude's Tiles of `buffer`: 4 words
  };
  Kind kind = Kind::pointer;
  std::string name;  ///< the field's name in the text
  sched::BufferId buffer = -1;
  ir::ValueId value = -1;  ///< number: the weak value; offset, stride: see there
  int dim = 0;
};

/// A generated kernel.
struct KernelText {
  std::string name;  ///< the step's
  std::string
      entry;  ///< the entry point's symbol; never a word of C++ or a function of its library
  std::string source;                ///< without the prelude
  std::vector<std::string> headers;  ///< of the prelude, in device/, that not every kernel needs
  std::vector<KernelArgument> arguments;
  int barriers = 0;  ///< epochs of `Sync` that a launch uses
  bool linear =
      true;  ///< all tensors lie in memory as the domain does; else the kernel goes row by row
  bool by_bucket = false;  ///< some tensors are scattered, and the kernel goes bucket by bucket
};

/// Generates the text of `step`. Throws ScheduleError for knobs that name no algorithm or protocol.
[[nodiscard]] KernelText generate(const sched::Plan& plan, const sched::KernelStep& step);

/// The kernels of `plan`, in execution order.
[[nodiscard]] std::vector<KernelText> generate(const sched::Plan& plan);

/// A kernel that reduces the tensors of `ranks` ranks, element by element and in rank order, into `results` tensors. Its
/// argument block is in[ranks], out[results], count, mode.
[[nodiscard]] KernelText write_library_reduction(DType dtype, Reduction reduction, int ranks,
                                                 int results);

/// A kernel that says of a whole tensor that it is made, to a step that takes its tiles. Its argument block is the
/// prelude's Tiles.
[[nodiscard]] KernelText write_tile_teller();

/// What every kernel of `target` ("host", "host_threads" or "cuda") is written over, and the further `headers`.
[[nodiscard]] std::string prelude(std::string_view target,
                                  std::span<const std::string> headers = {});

/// What that prelude is made of: a line for each header, its name and the SHA-256 of its text.
[[nodiscard]] std::string prelude_digests(std::string_view target,
                                          std::span<const std::string> headers);

/// The prelude followed by the kernel: what a compiler is given.
[[nodiscard]] std::string complete_source(const KernelText& kernel, std::string_view target);

/// The op that line `line` (from 1) of `complete_source` belongs to, by its label; empty when it is in the prelude.
[[nodiscard]] std::string op_at_line(std::string_view source, int line);

}  // namespace coconet::jit
