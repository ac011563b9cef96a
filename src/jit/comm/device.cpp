// Which GPU a rank uses.
#include "jit/cuda/device.h"
#include "coconet/config.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

const Device& Comm::device() {
  if (&node() != this) return node().device();
  if (device_ != nullptr) return *device_;
  const int gpus = Device::count();
  if (in_one_process() && size() > 1) {
    device_ = &Device::at(size() <= gpus ? rank() : 0);
  } else {
    const int chosen = Device::current();
    device_ = &Device::at(chosen >= 0 ? chosen : gpus == 0 ? 0 : rank() % gpus);
  }
  return *device_;
}

int Comm::ranks_on_device() {
  return in_one_process() && size() > Device::count() ? size() : 1;
}

}  // namespace coconet::jit
