// What there is of CUDA on this machine, told without throwing: for `coconet doctor` and for
// messages. Needs no header of CUDA, and nothing of it in builds without (no_cuda.cpp).
#pragma once

#include <string>
#include <vector>

#include "jit/platform/shared_library.h"

namespace coconet::jit {

struct GpuFacts {
  std::string description;     ///< "NVIDIA H100, sm_90, 79.6 GiB"
  std::string arch;            ///< "sm_90"; empty when the driver does not tell
  bool shares_memory = false;  ///< its memory can be handed to other processes as file descriptors
  bool multicasts = false;     ///< a switch can add and copy for it
};

struct DriverFacts : LibraryFacts {
  int major = 0;  ///< 12; `version` is "CUDA 12.4"
  std::vector<GpuFacts> gpus;
  std::string no_gpu;  ///< why there is none
};

[[nodiscard]] DriverFacts driver_facts();
[[nodiscard]] LibraryFacts nccl_facts();
[[nodiscard]] LibraryFacts cublas_facts();

}  // namespace coconet::jit
