// What `coconet doctor` finds out about GPUs: it looks into libraries that may be there, and needs none of them.
#pragma once

#include <string>
#include <vector>

namespace coconet::cli {

struct Gpu {
  std::string description;  ///< "NVIDIA H100, sm_90, 79.6 GiB"
  std::string arch;         ///< "sm_90"; empty when the driver does not tell
};

/// Either `version` or `problem` is set.
struct DriverFacts {
  std::string version;  ///< "CUDA 12.4"
  int major = 0;        ///< 12
  std::string problem;
  std::vector<Gpu> gpus;
  std::string no_gpu;  ///< why there is none
};
[[nodiscard]] DriverFacts probe_driver();

/// Either `version` or `problem` is set.
struct NcclFacts {
  std::string version;  ///< "2.21.5"
  std::string problem;
};
[[nodiscard]] NcclFacts probe_nccl();

}  // namespace coconet::cli
