// Libraries of kernels and launches. An image is a shared object of this machine, which the stub of
// NVRTC makes, or a true one for GPUs, whose kernels can be launched and do nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "handles.h"
#include "runtime.h"

namespace stub {

/// A loaded file; unloaded when the last operation that runs its code is done.
struct Image {
  int file = -1;
  void* code = nullptr;  ///< null for one for GPUs
  std::string bytes;     ///< of one for GPUs

  Image() = default;
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image();
};

/// What KERNEL_ENTRY defines, with the host half of the prelude.
using Entry = void (*)(const void* words, long long block, long long blocks);

/// What the stub of NVRTC has kernels call with addresses that they find in memory, and the name of
/// their pointer to it.
using Alias = void* (*)(const void* address);
inline constexpr const char* alias_name = "stub_alias";
/// Where the memory at a device address is, for the kernel that runs on this thread. One without
/// access, or whose memory is freed, stays as it is, and ends whoever follows it.
void* alias_of(const void* address);

/// What it has kernels call where they wait, and the name of their pointer to it.
using GiveWay = void (*)();
inline constexpr const char* give_way_name = "stub_give_way";

struct Kernel {
  std::shared_ptr<Image> image;
  std::string name;
  Entry entry = nullptr;           ///< null for one for GPUs
  std::size_t argument_bytes = 0;  ///< of one rank
};

/// A kernel with its arguments, which were copied when it was launched, captured or changed.
struct Launch {
  std::shared_ptr<Kernel> kernel;
  int device = 0;
  unsigned blocks = 1;  ///< of each rank
  unsigned ranks = 1;   ///< of the launch: the grid's second dimension
  unsigned threads = 1;
  bool cooperative = false;
  std::vector<std::uint64_t> words;  ///< ranks after each other, as a kernel on a GPU finds them
};

/// Without the lock.
CUresult run_kernel(const Launch& launch);

/// Gives a launch other arguments and another grid. The kernel must be the same.
CUresult change(Launch& launch, const CUDA_KERNEL_NODE_PARAMS& params);

std::size_t live_libraries();

}  // namespace stub
