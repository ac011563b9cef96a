// What this machine's memory allows: the time of a plain copy, measured where the kernels run.
#pragma once

#include <cstdint>
#include <map>

#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class Roofline {
 public:
  /// Collective: milliseconds that copying takes when it moves `bytes` (half read, half written) on
  /// all ranks at once; best of several passes over a working set of that size. Measured once per
  /// power of two.
  double copy_ms(Comm& comm, const Platform& platform, std::uint64_t bytes);

 private:
  std::map<int, double> ms_per_byte_;  ///< by the size's binary logarithm
};

}  // namespace coconet::jit
