// What the library sees of the handles that applications hold.
#pragma once

#include <memory>
#include <utility>

#include "coconet/world.h"

namespace coconet::jit {

struct Access {
  [[nodiscard]] static World world(std::shared_ptr<Comm> comm) { return World(std::move(comm)); }
  [[nodiscard]] static const std::shared_ptr<Comm>& comm(const World& world) { return world.comm_; }
  [[nodiscard]] static Buffer buffer(std::shared_ptr<PeerMemory> memory, DType dtype,
                                     std::size_t count) {
    return {std::move(memory), dtype, count};
  }
  [[nodiscard]] static const std::shared_ptr<PeerMemory>& memory(const Buffer& buffer) {
    return buffer.memory_;
  }
};

/// The machinery of `world`.
[[nodiscard]] inline Comm& comm_of(const World& world) {
  return *Access::comm(world);
}

}  // namespace coconet::jit
