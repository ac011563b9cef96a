// Measurements of matmuls on one GPU.
#pragma once

#include "gpu_table.h"

namespace bench {

/// A step that is one matmul against bare calls of cuBLASLt.
void measure_matmul(bool small, Table& table);

}  // namespace bench
