// What matmul libraries of the host share: what there is of one on this machine, and how it is told
// of a matrix.
#pragma once

#include <cstdint>
#include <string>

#include "jit/config/instruction_set.h"
#include "jit/platform/shared_library.h"

namespace coconet::jit {

struct BlasFacts : LibraryFacts {
  InstructionSet instructions = InstructionSet::baseline;  ///< that its kernels are written for
  std::string kernels = {};                                ///< what OpenBLAS calls them: "SkylakeX"
};

/// A row-major matrix as it is stored, its rows `row` elements apart.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t row;
  bool transposed;
};

}  // namespace coconet::jit
