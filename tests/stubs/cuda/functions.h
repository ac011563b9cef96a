// A kernel in the context of one device.
#pragma once

#include <memory>

#include "kernels.h"

namespace stub {

struct Function {
  std::shared_ptr<Kernel> kernel;
  int device = 0;
};

/// Null for a handle that is none, or whose library is unloaded.
std::shared_ptr<Function> find_function(CUfunction handle);

}  // namespace stub
