// Finds kernels' binaries in the cache on disk or compiles them, as many at once as compile slots
// allow.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "jit/kernels/binary_request.h"

namespace coconet::jit {

/// What came of a request.
struct ObtainedBinary {
  CachedBinary binary;
  std::string command;  ///< of the compiler; empty when the binary was found
  /// Of the compiler alone; that of several kernels in one compilation is divided by their number.
  std::chrono::nanoseconds compile_time{};
  std::exception_ptr failure;  ///< instead of all that; null when there is a binary

  [[nodiscard]] bool was_compiled() const { return !command.empty(); }
};

/// What is wrong with a binary; empty: nothing.
using BinaryCheck = std::function<std::string(const BinaryRequest&, const CachedBinary&)>;

/// The binaries of `requests`, all for one compiler: from the cache on disk, or compiled, by one of
/// the processes that share the cache, and stored. A stored binary that `check` finds something
/// wrong with is compiled again. Failures are CompileError as `BinaryRequest::compile` throws it,
/// and BackendError when a compiled binary does not pass `check`.
///
/// Kernels that are missing are compiled in batches, one for each compile slot of this process. The
/// binary of a batch is stored under the key of each of its kernels.
[[nodiscard]] std::vector<ObtainedBinary> obtain_binaries(
    std::span<const BinaryRequest* const> requests, const BinaryCheck& check = {});

}  // namespace coconet::jit
