// What this process has already, by owner and key digest.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "jit/cache/digest.h"

namespace coconet::jit {

/// Values that stay until the process ends. A hit allocates nothing. Threads may share an object.
template <class Value>
class MemoryCache {
 public:
  /// The value of `owner`, an address, under `digest`; null when there is none.
  [[nodiscard]] std::shared_ptr<const Value> find(const void* owner, const Digest& digest) const {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(Place{owner, digest});
    return found == values_.end() ? nullptr : found->second;
  }
  /// Keeps `value` unless there is one; returns what is there.
  std::shared_ptr<const Value> keep(const void* owner, const Digest& digest,
                                    std::shared_ptr<const Value> value) {
    const std::lock_guard lock(mutex_);
    return values_.try_emplace(Place{owner, digest}, std::move(value)).first->second;
  }

 private:
  struct Place {
    const void* owner;
    Digest digest;
    bool operator==(const Place&) const = default;
  };
  /// A digest is as good a hash as there is.
  struct Hash {
    std::size_t operator()(const Place& place) const {
      std::size_t bits = 0;
      std::memcpy(&bits, place.digest.data(), sizeof(bits));
      return bits ^ reinterpret_cast<std::size_t>(place.owner);
    }
  };

  mutable std::mutex mutex_;
  std::unordered_map<Place, std::shared_ptr<const Value>, Hash> values_;
};

}  // namespace coconet::jit
