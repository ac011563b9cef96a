// NCCL's collectives in a build that found no nccl.h.
#include "coconet/error.h"
#include "jit/cuda/facts.h"
#include "jit/device_group.h"

namespace coconet::jit {

std::unique_ptr<DeviceGroup> make_nccl_group(Comm&, std::vector<int>, const std::string& step) {
  throw CommError("library collective '" + step + "' needs NCCL, and there is none to use: " +
                  nccl_facts().problem + "; build where nccl.h is, or fuse the collective");
}

}  // namespace coconet::jit
