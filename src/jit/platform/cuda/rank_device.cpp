// Which GPU a rank uses.
#include "jit/comm/comm.h"
#include "jit/platform/cuda/device.h"

namespace coconet::jit {

const Device& device_of(Comm& comm) {
  if (&comm.node() != &comm) return device_of(comm.node());
  if (comm.gpu() < 0) {
    const int gpus = Device::count();
    if (comm.in_one_process() && comm.size() > 1) {
      comm.gpu() = comm.size() <= gpus ? comm.rank() : 0;
    } else {
      const int chosen = Device::current();
      comm.gpu() = chosen >= 0 ? chosen : gpus == 0 ? 0 : comm.rank() % gpus;
    }
  }
  return Device::at(comm.gpu());
}

int ranks_on_device(Comm& comm) {
  return comm.in_one_process() && comm.size() > Device::count() ? comm.size() : 1;
}

}  // namespace coconet::jit
