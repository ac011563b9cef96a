// Matmuls in a build without cuBLASLt's header.
#include "gpu_matmul.h"

namespace bench {

void measure_matmul(bool, Table& table) {
  table.add_not_measured("matmul", "all", "this build found no cublasLt.h");
}

}  // namespace bench
