// The kernels of many programs, compiled together before the programs run: tests with thousands of
// small programs would otherwise spend their time in thousands of starts of the compiler.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "coconet/coconet.h"
#include "jit/codegen/codegen.h"

namespace coconet::test {

class CompileAhead {
 public:
  /// Adds the kernels of `program` under `schedule`, which must be legal.
  void add(const Program& program, const Schedule& schedule);
  /// Compiles what was added on all cores, many kernels at a time, for `compile` to find in this
  /// process's memory. Only the host's kernels; others, and those that do not compile together, are
  /// left to `compile`.
  void compile() const;
  /// Different kernels.
  [[nodiscard]] std::size_t size() const { return kernels_.size(); }

 private:
  std::map<std::string, jit::KernelText> kernels_;  ///< by source
};

}  // namespace coconet::test
