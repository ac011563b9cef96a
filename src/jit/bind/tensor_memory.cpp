// Who reaches a tensor's memory.
#include "jit/bind/tensor_memory.h"

#include <algorithm>

namespace coconet::jit {

bool TensorMemory::is_reachable(bool through_multicast) const {
  return std::ranges::all_of(places, [&](const Place& place) {
    return place.peers && (!through_multicast || place.peers->multicast() != nullptr);
  });
}

}  // namespace coconet::jit
