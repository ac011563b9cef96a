// Backends: how kernel text becomes something that runs, and runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "jit/compile/compiler.h"

namespace coconet::jit {

/// A loaded kernel. Launches from several threads at once are fine.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Runs the kernel's `blocks` blocks on the argument block `words`; returns when all have ended.
  virtual void launch(std::span<const std::uint64_t> words, int blocks) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Makes the binaries that `load` takes.
  [[nodiscard]] virtual const Compiler& compiler() const = 0;
  /// Throws BackendError when the binary cannot be loaded or lacks `entry`.
  [[nodiscard]] virtual std::shared_ptr<const Kernel> load(std::string_view binary,
                                                           const std::string& entry) const = 0;
};

/// The host backend of this process: kernels are shared objects. Made at the first call; throws CompileError when
/// there is no compiler.
[[nodiscard]] const Backend& host_backend();

/// Loads a host binary; needs no compiler.
[[nodiscard]] std::shared_ptr<const Kernel> load_host_kernel(std::string_view binary,
                                                             const std::string& entry);

}  // namespace coconet::jit
