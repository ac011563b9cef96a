// NCCL in a build that found no nccl.h.
#include "coconet/error.h"
#include "jit/platform/cuda/facts.h"
#include "jit/platform/cuda/libraries.h"

namespace coconet::jit {

LibraryFacts nccl_facts() {
  return {{}, "this library was built without nccl.h"};
}

void require_nccl_of(Comm&, void*) {
  throw CommError("World::use_nccl was called, and there is no NCCL to use: " +
                  nccl_facts().problem + "; build where nccl.h is");
}

bool nccl_has_windows() {
  return false;
}

std::unique_ptr<Collectives> make_nccl_group(Comm&, std::vector<int>, const std::string& step) {
  throw CommError("library collective '" + step + "' needs NCCL, and there is none to use: " +
                  nccl_facts().problem + "; build where nccl.h is, or fuse the collective");
}

}  // namespace coconet::jit
