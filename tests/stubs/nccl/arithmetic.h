// Reductions over ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "nccl_api.h"

namespace stub {

/// Bytes of an element; 0 for types that the stub does not have.
std::size_t width_of(ncclDataType_t type);

/// Reduces arrays of `count` elements in the order of their ranks, floats as double and integers as
/// 64 bits, and rounds or wraps once, at the end. `to` may be one of `from`.
void reduce(char* to, const std::vector<const char*>& from, std::size_t count, ncclDataType_t type,
            ncclRedOp_t op);

}  // namespace stub
