// NCCL in a build that found no nccl.h.
#include "jit/cuda/facts.h"

namespace coconet::jit {

NcclFacts nccl_facts() {
  return {{}, "this library was built without nccl.h"};
}

}  // namespace coconet::jit
