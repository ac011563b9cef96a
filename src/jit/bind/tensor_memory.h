// The memory of one tensor on a rank: the library's own or the caller's. Executables that share a
// state have one such thing in common, so that what one of them binds is the memory of all.
#pragma once

#include <algorithm>
#include <string>

#include "coconet/executable.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

struct TensorMemory {
  /// Where one of the tensor's buffers is.
  struct Place {
    std::byte* data = nullptr;
    std::shared_ptr<PeerMemory> peers;  ///< it is part of that; null where no rank else reaches it
    std::size_t offset = 0;             ///< bytes from where each rank's block of `peers` begins
  };
  std::vector<Place> places;  ///< in use, by buffer; all null before the first use
  bool bound = false;         ///< the application chose the memory, or has asked for it
  bool foreign = false;       ///< it is the application's
  bool given_out = false;     ///< the application has pointers into the library's
  bool read_only = false;     ///< it may not be written
  std::string torn;           ///< why a failed step may have left it half written; empty: it is not

  // The library's own: a part of the one or the other, or nothing yet.
  std::shared_ptr<PeerMemory> shared;  ///< which other ranks reach
  std::shared_ptr<Memory> alone;
  std::size_t offset = 0;

  bool reached = false;       ///< kernels reach the tensor from other ranks
  bool multicast = false;     ///< they do so through a multicast pointer
  std::uint64_t version = 0;  ///< changes whenever a place does

  /// Whether other ranks reach all that is in use, if need be through a multicast pointer.
  [[nodiscard]] bool is_reachable(bool through_multicast) const {
    return std::ranges::all_of(places, [&](const Place& place) {
      return place.peers && (!through_multicast || place.peers->multicast() != nullptr);
    });
  }
};

}  // namespace coconet::jit
