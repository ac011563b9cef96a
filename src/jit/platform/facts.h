// What there is of CUDA on this machine, told without throwing: for `coconet doctor` and for
// messages. Needs no header of CUDA.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace coconet::jit {

struct GpuFacts {
  std::string description;     ///< "NVIDIA H100, sm_90, 79.6 GiB"
  std::string arch;            ///< "sm_90"; empty when the driver does not tell
  bool shares_memory = false;  ///< its memory can be handed to other processes as file descriptors
  bool multicasts = false;     ///< a switch can add and copy for it
};

struct DriverFacts {
  std::string version;  ///< "CUDA 12.4"; empty when there is no driver
  int major = 0;        ///< 12
  std::string problem;  ///< why the driver cannot be used; empty when it can
  std::vector<GpuFacts> gpus;
  std::string no_gpu;  ///< why there is none
};
[[nodiscard]] DriverFacts driver_facts();

struct NcclFacts {
  std::string version;  ///< "2.21.5"; empty when there is none
  std::string problem;  ///< why it cannot be used; empty when it can
};
[[nodiscard]] NcclFacts nccl_facts();

struct CublasFacts {
  std::string version;  ///< "13.0.2"; empty when there is none
  std::string problem;  ///< why it cannot be used; empty when it can
};
[[nodiscard]] CublasFacts cublas_facts();

}  // namespace coconet::jit
