// The public face of worlds, and the buffers that live in them.
#include "coconet/world.h"

#include <fmt/format.h>

#include <limits>

#include "coconet/mesh.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/config/configure.h"
#include "jit/platform/platform.h"

namespace coconet {

Buffer::Buffer(std::shared_ptr<jit::PeerMemory> memory, DType dtype, std::size_t count)
    : memory_(std::move(memory)),
      data_(memory_->base(memory_->rank())),
      dtype_(dtype),
      count_(count) {}

void Buffer::require(DType asked) const {
  if (asked == dtype_) return;
  throw BackendError(
      fmt::format("the buffer holds {}, but is read as {}", to_string(dtype_), to_string(asked)));
}

void* Buffer::data_of(int rank) const {
  if (!memory_) {
    throw BackendError(fmt::format(
        "a buffer of rank {} was asked for; this one is empty: World::allocate makes one", rank));
  }
  if (rank < 0 || rank >= memory_->ranks()) {
    throw BackendError(
        fmt::format("a buffer of rank {} was asked for; the world has the ranks 0 to {}", rank,
                    memory_->ranks() - 1));
  }
  if (std::byte* const block = memory_->base(rank)) return block;
  throw BackendError(
      fmt::format("the buffer of rank {} was asked for on rank {}, which is on another node and "
                  "shares no memory with it; exchange the elements by a collective",
                  rank, memory_->rank()));
}

World World::self(const Options& options) {
  return World(jit::make_self_comm(jit::configure(options)));
}

World World::from(const Bootstrap& bootstrap, const Options& options) {
  return World(jit::make_bootstrap_comm(bootstrap, jit::configure(options)));
}

void World::local(int ranks, const std::function<void(World&)>& body, const Options& options) {
  jit::run_local_ranks(
      ranks,
      [&](const std::shared_ptr<jit::Comm>& comm) {
        World world(comm);
        body(world);
      },
      jit::configure(options));
}

int World::rank() const {
  return comm_->rank();
}
int World::size() const {
  return comm_->size();
}
std::string_view World::kind() const {
  return comm_->kind();
}
int World::nodes() const {
  return comm_->nodes().count();
}
void World::barrier() const {
  comm_->barrier();
}
World World::shrink() const {
  return World(comm_->shrink());
}
void World::abort(std::string_view reason) const {
  comm_->membership()->fail(reason);
}

Buffer World::allocate(DType dtype, std::size_t count) const {
  if (count > std::numeric_limits<std::size_t>::max() / size_of(dtype)) {
    throw CommError(
        fmt::format("cannot allocate {} elements of {}: their size in bytes does not fit 64 bits",
                    count, to_string(dtype)));
  }
  const jit::Platform* platform = nullptr;
  jit::together(*comm_, [&] { platform = &jit::platform_of(*comm_, comm_->config()); });
  return jit::Access::buffer(platform->allocate_peer(*comm_, count * size_of(dtype), true), dtype,
                             count);
}

void World::use_nccl(void* communicator) const {
  const jit::Platform* platform = nullptr;
  jit::together(*comm_, [&] { platform = &jit::platform_of(*comm_, comm_->config()); });
  platform->use_communicator(*comm_, communicator);
}

// Here rather than beside the rest of Mesh: the program's layer knows no worlds.
Mesh Mesh::over(const World& world) {
  return Mesh({{"world", world.size()}});
}

}  // namespace coconet
