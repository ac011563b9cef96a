// Placement and binding of tensors.
#include "jit/bind/tensors.h"

#include <algorithm>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector

std::size_t padded(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Bytes to leave free before the tensor that follows `large` other large ones. Tensors that a
/// kernel reads side by side must not lie at distances of large powers of two: AMD's first-level
/// cache tells its ways apart by a hash of the virtual page, and 2^24 parameters of Adam on 2 ranks
/// then took 10.3 instead of 6.4 ms.
std::size_t stagger(std::size_t large) {
  constexpr std::size_t pages = 17;
  return large % 16 * pages * 4096;
}
constexpr std::size_t large_tensor = std::size_t{1} << 15;

/// Calls f(data, begin, length) with the memory of `tensor` and which of its bytes are there: all,
/// or buffer by buffer.
template <class F>
void for_each_buffer(const Tensors::Tensor& tensor, F f) {
  const std::size_t size = size_of(tensor.buffer->dtype);
  if (!tensor.buffer->scattered) f(tensor.data, std::size_t{0}, tensor.count * size);
  for (const Tensors::ScatteredBuffer& buffer : tensor.buffers)
    f(buffer.data, buffer.begin * size, buffer.count * size);
}

}  // namespace

Tensors::Tensors(Comm& comm, const Platform& platform, const RankPlan& plan)
    : comm_(comm), platform_(platform), plan_(plan), of_tensors_(plan.plan().buffers.size()) {
  std::size_t shared = 0;
  std::size_t own = 0;
  std::size_t large = 0;
  for (std::size_t i = 0; i < plan.plan().buffers.size(); ++i) {
    const auto id = static_cast<sched::BufferId>(i);
    const sched::PlanBuffer& buffer = plan.buffer(id);
    Tensor tensor;
    tensor.buffer = &buffer;
    tensor.count = static_cast<std::size_t>(plan.buffer_part(id).count());
    const auto block = static_cast<std::size_t>(plan.block_count(id));
    // A process addresses 2^47 bytes; that many tensors of that many do not overflow a sum.
    if (block > (std::size_t{1} << 47) / size_of(buffer.dtype)) {
      throw BackendError("'" + buffer.name + "' has " + std::to_string(block) + " elements of " +
                         std::string(to_string(buffer.dtype)) +
                         " on a rank, more than memory can hold; make its dimensions smaller");
    }
    tensor.bytes = padded(block * size_of(buffer.dtype));
    if (buffer.scattered) cut(tensor, plan.lengths(id));
    std::size_t& total = is_shared(buffer) ? shared : own;
    if (tensor.bytes >= large_tensor) total += stagger(large++);
    offsets_.push_back(total);
    total += tensor.bytes;
    tensors_.push_back(std::move(tensor));
  }
  if (platform.traits().pages_on_demand) private_ = platform.allocate(own);
  if (shared > 0) {
    const bool multicast =
        std::any_of(plan.plan().buffers.begin(), plan.plan().buffers.end(),
                    [&](const sched::PlanBuffer& buffer) { return needs_multicast(buffer); });
    shared_ = platform.allocate_peer(comm, shared, multicast);
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    if (tensor.buffer->scattered) continue;  // which the application always binds
    if (private_ || is_shared(*tensor.buffer)) tensor.data = own_memory(i);
    if (!tensor.buffer->peer_access) continue;
    for (int rank = 0; rank < comm.size(); ++rank) {
      tensor.peers.push_back(shared_ ? of_peer(rank, offsets_[i]) : nullptr);
    }
    if (needs_multicast(*tensor.buffer) && shared_->multicast() != nullptr)
      tensor.multicast = shared_->multicast() + offsets_[i];
  }
}

void Tensors::require_multicast(const std::string& kernel) const {
  if (!platform_.traits().needs_multicast || comm_.size() == 1) return;
  const std::string why = shared_ ? shared_->no_multicast() : "no tensor is reached by other ranks";
  if (why.empty()) return;
  throw BackendError("kernel '" + kernel +
                     "' has the algorithm 'multimem', and there is no multicast pointer to the "
                     "memory of all ranks: " +
                     why + "; use the algorithm 'direct'");
}

void Tensors::cut(Tensor& tensor, const std::vector<std::int64_t>& lengths) const {
  std::size_t begin = 0;
  tensor.bytes = 0;
  for (const std::int64_t length : lengths) {
    ScatteredBuffer buffer;
    buffer.begin = begin;
    buffer.count = static_cast<std::size_t>(length);
    buffer.offset = tensor.bytes;
    if (tensor.buffer->peer_access) buffer.peers.resize(static_cast<std::size_t>(comm_.size()));
    begin += buffer.count;
    tensor.bytes += padded(buffer.count * size_of(tensor.buffer->dtype));
    tensor.buffers.push_back(std::move(buffer));
  }
}

bool Tensors::is_shared(const sched::PlanBuffer& buffer) const {
  if (platform_.traits().shares_for_collectives) return buffer.peer_access || buffer.in_collective;
  return buffer.peer_access && comm_.size() > 1;
}

std::byte* Tensors::own_memory(std::size_t id) {
  if (is_shared(*tensors_[id].buffer)) return shared_->base(comm_.rank()) + offsets_[id];
  if (private_) return private_->data() + offsets_[id];
  if (!of_tensors_[id]) of_tensors_[id] = platform_.allocate(tensors_[id].bytes);
  return of_tensors_[id]->data();
}

std::byte* Tensors::of_peer(int rank, std::size_t offset) const {
  std::byte* const block = shared_->base(rank);
  return block == nullptr ? nullptr : block + offset;
}

std::string Tensors::describe(const Tensor& tensor) const {
  return "'" + tensor.buffer->name + "', " + std::to_string(tensor.count) + " x " +
         std::string(to_string(tensor.buffer->dtype)) + " on rank " + std::to_string(comm_.rank());
}

sched::BufferId Tensors::find(std::string_view name) const {
  const auto found = plan_.plan().named.find(name);
  if (found != plan_.plan().named.end()) return found->second;
  std::vector<std::string> known;
  std::string all;
  for (const auto& [candidate, id] : plan_.plan().named) {
    known.push_back(candidate);
    all += (all.empty() ? "" : ", ") + candidate;
  }
  const std::string near = ir::nearest(name, known);
  throw BackendError("program '" + plan_.graph().name + "' has no input, state or output '" +
                     std::string(name) + "'; " +
                     (near.empty() ? "it has " + all : "did you mean '" + near + "'?"));
}

void Tensors::require_dtype(const Tensor& tensor, DType dtype) const {
  if (dtype == tensor.buffer->dtype) return;
  throw BackendError(describe(tensor) + ", is bound to " + std::string(to_string(dtype)) +
                     " data; give " + std::string(to_string(tensor.buffer->dtype)));
}

void Tensors::require_whole(const Tensor& tensor, const char* instead) const {
  if (!tensor.buffer->scattered) return;
  throw BackendError(describe(tensor) + ", is scattered over " +
                     std::to_string(tensor.buffers.size()) +
                     " buffers, not one; use Executable::" + instead);
}

void Tensors::require_memory(const Tensor& tensor, const void* data, std::size_t count) const {
  const std::size_t size = size_of(tensor.buffer->dtype);
  if (reinterpret_cast<std::uintptr_t>(data) % size != 0) {
    throw BackendError(describe(tensor) + ", is bound to memory that is not aligned to its " +
                       std::to_string(size) + "-byte elements");
  }
  if (data == nullptr && count > 0)
    throw BackendError(describe(tensor) + ", is bound to a null pointer");
  if (count > 0) platform_.require_reachable(data, describe(tensor));
}

void Tensors::require_unreached(const Tensor& tensor) const {
  if (!tensor.buffer->peer_access || comm_.size() == 1) return;
  throw BackendError(describe(tensor) +
                     ", is reached by other ranks from inside a kernel, which the memory given " +
                     "is not open to; bind a Buffer of World::allocate, or use Executable::" +
                     (tensor.buffer->scattered ? "buffers" : "buffer"));
}

Tensors::Tensor& Tensors::checked(std::string_view name, DType dtype, std::size_t count) {
  Tensor& tensor = tensors_[static_cast<std::size_t>(find(name))];
  require_dtype(tensor, dtype);
  if (count != tensor.count) {
    throw BackendError(describe(tensor) + ", is bound to " + std::to_string(count) +
                       " elements; its layout is " +
                       ir::to_string(tensor.buffer->layout, plan_.mesh()) + ", so give " +
                       std::to_string(tensor.count));
  }
  return tensor;
}

void* Tensors::own(std::string_view name, DType dtype) {
  const auto id = static_cast<std::size_t>(find(name));
  if (dtype != tensors_[id].buffer->dtype) {
    throw BackendError(describe(tensors_[id]) + ", is asked for as " +
                       std::string(to_string(dtype)) + "; ask for " +
                       std::string(to_string(tensors_[id].buffer->dtype)));
  }
  Tensor& tensor = tensors_[id];
  require_whole(tensor, "buffers");
  tensor.data = own_memory(id);
  for (std::size_t rank = 0; rank < tensor.peers.size(); ++rank) {
    tensor.peers[rank] = shared_ ? of_peer(static_cast<int>(rank), offsets_[id]) : tensor.data;
  }
  if (needs_multicast(*tensor.buffer)) tensor.multicast = shared_->multicast() + offsets_[id];
  buffers_.erase(static_cast<sched::BufferId>(id));
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
  return tensor.data;
}

void Tensors::bind(std::string_view name, DType dtype, void* data, std::size_t count) {
  Tensor& tensor = checked(name, dtype, count);
  require_whole(tensor, "bind_scattered");
  require_unreached(tensor);
  require_memory(tensor, data, count);
  tensor.data = static_cast<std::byte*>(data);
  for (std::byte*& peer : tensor.peers) peer = tensor.data;
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
}

void Tensors::bind_read_only(std::string_view name, DType dtype, const void* data,
                             std::size_t count) {
  Tensor& tensor = tensors_[static_cast<std::size_t>(find(name))];
  if (tensor.buffer->role != sched::PlanBuffer::Role::input) {
    throw BackendError("'" + std::string(name) +
                       "' is written by the step, but bound to constant memory; bind memory that "
                       "may be written");
  }
  bind(name, dtype, const_cast<void*>(data), count);
  tensor.read_only = true;
}

void Tensors::bind(std::string_view name, const Buffer& buffer) {
  if (!buffer.memory())
    throw BackendError("'" + std::string(name) + "' is bound to an empty Buffer; allocate one");
  Tensor& tensor = checked(name, buffer.dtype(), buffer.count());
  require_whole(tensor, "bind_scattered");
  if (needs_multicast(*tensor.buffer)) {
    tensor.multicast = buffer.memory()->multicast();
    if (tensor.multicast == nullptr) {
      throw BackendError(
          describe(tensor) + ", is reached through a multicast pointer, and the Buffer has none: " +
          buffer.memory()->no_multicast() + "; use Executable::buffer, or the algorithm 'direct'");
    }
  }
  tensor.data = static_cast<std::byte*>(buffer.data());
  for (std::size_t rank = 0; rank < tensor.peers.size(); ++rank) {
    tensor.peers[rank] = buffer.memory()->base(static_cast<int>(rank));
  }
  buffers_[find(name)] = {buffer};
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
}

void Tensors::complete() {
  for (std::size_t id = 0; id < tensors_.size(); ++id) {
    Tensor& tensor = tensors_[id];
    const bool needed = tensor.buffer->role == sched::PlanBuffer::Role::input ||
                        tensor.buffer->role == sched::PlanBuffer::Role::state;
    if (needed && !tensor.bound) {
      throw BackendError(
          describe(tensor) + ", has no memory; bind data to it, or fill Executable::" +
          (tensor.buffer->scattered ? "buffers" : "buffer") + "(\"" + tensor.buffer->name + "\")");
    }
    if (tensor.data != nullptr || tensor.buffer->scattered) continue;
    tensor.data = own_memory(id);
    std::fill(tensor.peers.begin(), tensor.peers.end(), tensor.data);
    ++version_;
  }
}

void Tensors::write(Queue& queue, std::string_view name, DType dtype, const void* from,
                    std::size_t count) {
  const Tensor& tensor = checked(name, dtype, count);
  if (tensor.read_only) {
    throw BackendError(describe(tensor) + ", is bound to constant memory, which cannot be written");
  }
  if (tensor.buffer->scattered) {
    if (!tensor.bound) (void)own_scattered(name, dtype);
  } else if (!tensor.bound) {
    (void)own(name, dtype);
  }
  for_each_buffer(tensor, [&](std::byte* data, std::size_t begin, std::size_t length) {
    queue.copy(data, static_cast<const std::byte*>(from) + begin, length);
  });
}

void Tensors::read(Queue& queue, std::string_view name, DType dtype, void* to, std::size_t count) {
  const Tensor& tensor = checked(name, dtype, count);
  if (tensor.buffer->scattered) {
    if (!tensor.bound) (void)own_scattered(name, dtype);
  } else if (tensor.data == nullptr) {
    (void)own(name, dtype);
  }
  for_each_buffer(tensor, [&](std::byte* data, std::size_t begin, std::size_t length) {
    queue.copy(static_cast<std::byte*>(to) + begin, data, length);
  });
}

}  // namespace coconet::jit
