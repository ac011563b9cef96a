// Finds kernels' binaries in the cache on disk, or compiles them in batches.
#pragma once

#include <exception>

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

/// The binaries of `requests`, all for one compiler: from the cache on disk, or compiled and stored
/// by one of the processes that share it. A stored binary that `check` objects to is compiled
/// again. Failures are CompileError as of `BinaryRequest::compile`, and BackendError where `check`
/// objects.
///
/// Missing kernels are compiled in batches, one for each compile slot of this process, whose binary
/// is stored under the key of each of its kernels.
[[nodiscard]] std::vector<ObtainedBinary> obtain_binaries(
    std::span<const BinaryRequest* const> requests, const BinaryCheck& check = {});

}  // namespace coconet::jit
