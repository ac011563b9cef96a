// GPUs of this process, and which of them a rank uses.
#pragma once

#include <string>

namespace coconet::jit {

/// A GPU and its primary context, which this library shares with CUDA's runtime and all libraries
/// in the process.
struct Device {
  /// The GPU `ordinal`, made at its first use and kept to the end of the process. Throws
  /// BackendError when there is no driver or no such GPU.
  [[nodiscard]] static const Device& at(int ordinal);
  /// How many GPUs the driver shows to this process. Throws BackendError when there is no driver.
  [[nodiscard]] static int count();
  /// Of GPUs that this process need not use, asked of the driver: a Device has a context, which
  /// takes some 0.5 GiB of its GPU. Both throw BackendError.
  [[nodiscard]] static std::string name_of(int ordinal);
  /// The GPU with the identity `uuid`, or -1 where this process sees none.
  [[nodiscard]] static int find(const std::string& uuid);

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  /// Whether this GPU can be one of several behind a multicast address, and the driver knows such.
  /// Throws BackendError.
  [[nodiscard]] bool multicasts() const;

  int ordinal;       ///< which a CUdevice is
  std::string name;  ///< "NVIDIA H100, GPU 0"
  std::string arch;  ///< "sm_90"
  std::string uuid;  ///< 16 bytes
  int multiprocessors = 0;
  bool shares_memory = false;  ///< its memory can be mapped by other processes and GPUs
  void* context = nullptr;     ///< CUcontext

 private:
  explicit Device(int number);
};

class Comm;

/// The GPU of this rank, chosen at the first call: the one whose context is current on the thread,
/// else the ranks of a node take its GPUs in turn; threads of one process take GPU 0 together when
/// there are fewer GPUs than ranks. Throws BackendError when there is none.
[[nodiscard]] const Device& device_of(Comm& comm);
/// Ranks of this process on the same GPU, which one launch runs.
[[nodiscard]] int ranks_on_device(Comm& comm);
/// Collective: ranks of the world that are on `device`, this one's, in whatever processes. Warns
/// where the driver runs these one at a time.
[[nodiscard]] int ranks_of_gpu(Comm& comm, const Device& device);

/// Makes a device's context current on this thread for as long as it lives. Where that fails, as at
/// the end of the process, the calls that follow fail, too, and say so.
class OnDevice {
 public:
  explicit OnDevice(const Device& device) noexcept;
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();

 private:
  bool pushed_ = false;
};

}  // namespace coconet::jit
