// What the machine code of GPU kernels does, read from the text that CUDA's nvdisasm writes:
// accesses of memory in loops, fences, local memory.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace coconet::test {

/// How many accesses of global memory there are, by their bytes.
using Accesses = std::map<int, int>;

/// A loop with accesses of global memory, and with no other such loop inside.
struct SassLoop {
  Accesses loads, stores;  ///< but those of flags
  int bytes_ahead = 0;     ///< that a thread loads before it uses any of them
};

struct SassKernel {
  int fences = 0;               ///< MEMBAR of the system
  int local_accesses = 0;       ///< LDL and STL: of a thread's stack
  std::vector<SassLoop> loops;  ///< those that have accesses as wide as any other, in order
};

/// How to call nvdisasm: of tests/run.sh --all, of a CUDA toolkit, or on the path. Empty where
/// there is none.
[[nodiscard]] const std::string& disassembler();

/// The kernels of a cubin by their entry points. Throws std::runtime_error where nvdisasm fails.
[[nodiscard]] std::map<std::string, SassKernel> disassembled(const std::string& cubin);

/// The kernels in nvdisasm's output, by their entry points.
[[nodiscard]] std::map<std::string, SassKernel> read_sass(const std::string& text);

}  // namespace coconet::test
