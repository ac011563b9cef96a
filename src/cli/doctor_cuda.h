// What `coconet doctor` finds out about GPUs: it looks into libraries that may be there, and needs none of them.
#pragma once

#include <string>
#include <vector>

namespace coconet::cli {

/// Either `version` or `problem` is set.
struct DriverFacts {
  std::string version;  ///< "CUDA 12.4"
  std::string problem;
  std::vector<std::string> gpus;  ///< "NVIDIA H100, sm_90, 79.6 GiB"
};
[[nodiscard]] DriverFacts probe_driver();

/// Either `version` or `problem` is set.
struct NcclFacts {
  std::string version;  ///< "2.21.5"
  std::string problem;
};
[[nodiscard]] NcclFacts probe_nccl();

}  // namespace coconet::cli
