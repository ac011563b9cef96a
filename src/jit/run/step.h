// One step of an executable: a kernel ready to launch, a library collective or a matmul.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

#include "jit/run/launch.h"
#include "jit/run/library.h"
#include "jit/run/matmul.h"

namespace coconet::jit {

struct Step {
  std::string name;
  std::string kind;
  std::variant<KernelLaunch, LibraryCollective, Matmul> work;
};

/// Is told of steps as they are put into queues.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  /// Before steps that run at once.
  virtual void forks(Queue& queue) = 0;
  /// Before step `step`, which runs beside others or not.
  virtual void begins(Queue& queue, std::size_t step, bool beside) = 0;
  /// Behind it.
  virtual void ended(Queue& queue, std::size_t step, bool beside) = 0;
  /// Behind steps that ran at once.
  virtual void joined(Queue& queue) = 0;
};

}  // namespace coconet::jit
