// NCCL's communicators of an application, from the stub.
#pragma once

#include <cstddef>
#include <span>

#include "coconet/error.h"
#include "coconet/world.h"
#include "cuda/stub.h"

namespace coconet::test {

/// NCCL as an application uses it, beside the library.
class OwnNccl {
 public:
  struct Id {
    char internal[128];
  };
  static Id make_id() {
    Id id{};
    if (stub_nccl::library().find<int(Id*)>("ncclGetUniqueId")(&id) != 0)
      throw InternalError("no id");
    return id;
  }
  /// Collective.
  OwnNccl(const World& world, const Id& id) : OwnNccl(world.size(), world.rank(), id) {}
  OwnNccl(int ranks, int rank, const Id& id) {
    const auto init =
        stub_nccl::library().find<int(void**, int, Id, int, void*)>("ncclCommInitRankConfig");
    if (init(&comm_, ranks, id, rank, nullptr) != 0) throw InternalError("no NCCL");
  }
  OwnNccl(const OwnNccl&) = delete;
  OwnNccl& operator=(const OwnNccl&) = delete;
  ~OwnNccl() { (void)stub_nccl::library().find<int(void*)>("ncclCommDestroy")(comm_); }
  [[nodiscard]] void* communicator() const { return comm_; }
  /// Adds up `data` of all ranks.
  void all_reduce(std::span<float> data, void* stream) {
    const auto call =
        stub_nccl::library().find<int(const void*, void*, std::size_t, int, int, void*, void*)>(
            "ncclAllReduce");
    constexpr int f32_type = 7, add = 0;
    if (call(data.data(), data.data(), data.size(), f32_type, add, comm_, stream) != 0)
      throw InternalError("NCCL refused");
  }

 private:
  void* comm_ = nullptr;
};

}  // namespace coconet::test
