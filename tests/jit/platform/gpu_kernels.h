// Many kernels through NVRTC: what tests of the sources for GPUs share.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "jit/platform/compiler.h"

namespace coconet::test {

inline constexpr const char* gpu_architectures[] = {"sm_80", "sm_90", "sm_100", "sm_120"};
/// Those whose machine code is read, too.
inline constexpr const char* read_architectures[] = {"sm_90", "sm_100"};

/// A kernel's text without prelude and comments, and where it comes from.
struct GpuKernel {
  std::string text;
  std::string from;
  bool is_large = true;  ///< it runs over more than a few elements
};

/// One of those kernels that have the same key.
using GpuKernels = std::map<std::string, GpuKernel>;

/// The kernel in a source after the prelude, without comments; empty when there is none.
[[nodiscard]] std::string kernel_in(const std::string& source);

/// What the compiler makes of a kernel but for names: words that the prelude does not have are
/// numbered as they come.
[[nodiscard]] std::string without_names(const std::string& text);
/// `text` without the numbers of ranks, in constants and in numbered names.
[[nodiscard]] std::string without_numbers(const std::string& text);

/// Adds the kernels of `program` under `schedule`, by `without_names`.
void add_kernels(const Program& program, const Schedule& schedule, GpuKernels& kernels);

/// Every kernel of the shipped programs on 8 ranks, by `without_names`.
[[nodiscard]] GpuKernels shipped_kernels();

/// Ends the test as skipped without NVRTC.
void require_nvrtc();

enum class Architectures { all, in_turn };

/// Several kernels in one cubin, by their entry points, with what each takes of a GPU.
struct GpuBinary {
  std::string architecture;
  std::string cubin;
  std::map<std::string, GpuKernel> kernels;
  std::map<std::string, jit::KernelResources> resources;
};
/// What there is to say of a binary; empty: nothing.
using Inspection = std::function<std::string(const GpuBinary&)>;

/// Compiles each of `kernels` for all of `gpu_architectures`, or for one of them in turn,
/// in two processes: in each NVRTC compiles one program at a time. What
/// is wrong: that a kernel does not compile, is not in the binary or spills registers; and what
/// `inspect` says of each binary. A kernel that the library compiles once more, with a bound on its
/// registers, is alone in one.
[[nodiscard]] std::vector<std::string> faults_of(const GpuKernels& kernels, Architectures which,
                                                 const Inspection& inspect = {});
/// NAME of the line KERNEL_ENTRY(NAME) of a kernel's text.
[[nodiscard]] std::string name_of(const std::string& text);

}  // namespace coconet::test
