// Placement of tensors.
#include "jit/bind/tensors.h"

#include <fmt/format.h>

#include <map>
#include <set>

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

/// What is allocated as one and freed as one: tensors that the same symbols make larger, so that
/// `Executable::resize` keeps some and frees others; states, which executables share, apart.
struct Block {
  std::size_t shared_bytes = 0, alone_bytes = 0;
  bool multicast = false;
  std::shared_ptr<PeerMemory> shared;
  std::shared_ptr<Memory> alone;
};
using BlockKey = std::pair<bool, std::set<std::string>>;

BlockKey key_of(const sched::PlanBuffer& buffer) {
  std::set<std::string> symbols;
  for (const Dim& dim : buffer.shape) {
    if (!dim.name.empty()) symbols.insert(dim.name);
  }
  return {buffer.role == sched::PlanBuffer::Role::state, std::move(symbols)};
}

}  // namespace

Tensors::Tensors(Comm& comm, const Platform& platform, const RankPlan& plan, const Tensors* before)
    : comm_(comm), platform_(platform), plan_(plan) {
  for (sched::BufferId id = 0; id < plan.plan().buffers.count(); ++id) tensors_.push_back(make(id));
  std::vector<Tensor*> unplaced;
  for (sched::BufferId id = 0; id < tensors_.count(); ++id) {
    // A window is another one each time.
    const bool keeps = before != nullptr && before->has_extents_of(id, plan) &&
                       !(before->window_.memory && belongs_in_window(plan.buffer(id)));
    if (keeps) {
      tensors_[id].memory = (*before)[id].memory;
      follow(tensors_[id]);
    } else {
      unplaced.push_back(&tensors_[id]);
    }
  }
  if (before != nullptr) shared_ = before->shared_;
  place(unplaced);
  for (Tensor* const tensor : unplaced) {
    const bool has_home = tensor->memory->shared || tensor->memory->alone;
    // The application always binds what is scattered.
    if (!tensor->buffer->scattered && has_home) use_own(*tensor);
  }
}

void Tensors::place(std::span<Tensor* const> unplaced) {
  std::set<const Tensor*> shared;  // with the library's own memory where other ranks reach it
  for (Tensor* const tensor : unplaced) {
    if (!is_shared(*tensor->buffer)) continue;
    const Tensor* const same = same_memory(*tensor);
    shared.insert(same != nullptr ? same : tensor);
  }
  std::map<BlockKey, Block> blocks;
  std::size_t in_window = 0, large = 0;
  bool has_window = false;
  for (Tensor* const tensor : unplaced) {
    if (same_memory(*tensor) != nullptr) continue;
    Block& block = blocks[key_of(*tensor->buffer)];
    const bool windowed = belongs_in_window(*tensor->buffer);
    has_window |= windowed;
    std::size_t& total = shared.contains(tensor) ? block.shared_bytes
                         : windowed              ? in_window
                                                 : block.alone_bytes;
    if (tensor->bytes >= large_tensor) total += stagger(large++);
    tensor->memory->offset = total;
    total += tensor->bytes;
    block.multicast |= needs_multicast(*tensor->buffer);
  }
  // All ranks have the same tensors, if not as many elements of them.
  for (auto& [key, block] : blocks) {
    if (block.shared_bytes > 0)
      block.shared = platform_.allocate_peer(comm_, block.shared_bytes, block.multicast);
    if (platform_.traits().pages_on_demand && block.alone_bytes > 0)
      block.alone = platform_.allocate(block.alone_bytes);
  }
  if (has_window) window_ = platform_.allocate_window(comm_, in_window);
  for (Tensor* const tensor : unplaced) {
    TensorMemory& memory = *tensor->memory;
    if (const Tensor* const same = same_memory(*tensor)) {  // which comes first
      memory.shared = same->memory->shared;
      memory.alone = same->memory->alone;
      memory.offset = same->memory->offset;
    } else if (const Block& block = blocks[key_of(*tensor->buffer)]; shared.contains(tensor)) {
      memory.shared = block.shared;
    } else {
      memory.alone = belongs_in_window(*tensor->buffer) ? window_.memory : block.alone;
    }
    if (!memory.shared && !memory.alone) memory.offset = 0;
  }
}

Tensors::Tensor Tensors::make(sched::BufferId id) const {
  const sched::PlanBuffer& buffer = plan_.buffer(id);
  Tensor tensor;
  tensor.buffer = &buffer;
  tensor.count = plan_.buffer_part(id).count();
  const std::size_t block = plan_.block_count(id);
  // A process addresses 2^47 bytes; that many tensors of that many do not overflow a sum.
  if (block > (std::size_t{1} << 47) / size_of(buffer.dtype)) {
    throw BackendError(fmt::format(
        "'{}' has {} elements of {} on a rank, more than memory can hold; make its dimensions "
        "smaller",
        buffer.name, block, to_string(buffer.dtype)));
  }
  std::vector<std::int64_t> lengths{plan_.buffer_part(id).count()};
  if (buffer.scattered) lengths = plan_.lengths(id);
  std::size_t begin = 0;
  for (const std::size_t length : lengths) {
    const std::size_t peers = buffer.peer_access ? comm_.size() : 0;
    tensor.pieces.push_back(
        {begin, length, tensor.bytes, nullptr, nullptr, std::vector<std::byte*>(peers)});
    begin += length;
    tensor.bytes += padded(length * size_of(buffer.dtype));
  }
  if (!buffer.scattered) tensor.bytes = padded(block * size_of(buffer.dtype));
  tensor.memory->places.resize(tensor.pieces.size());
  tensor.memory->reached = needs_peers(buffer);
  tensor.memory->multicast = needs_multicast(buffer);
  return tensor;
}

bool Tensors::has_extents_of(sched::BufferId id, const RankPlan& plan) const {
  return plan_.buffer_extents(id) == plan.buffer_extents(id) &&
         (!plan.buffer(id).scattered || plan_.lengths(id) == plan.lengths(id));
}

std::size_t Tensors::allocated_bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors_) bytes += tensor.bytes;
  return bytes;
}

void Tensors::require_multicast(const std::string& kernel) const {
  if (!platform_.traits().needs_multicast || comm_.size() == 1) return;
  std::string why = "no tensor is reached by other ranks";
  for (const Tensor& tensor : tensors_) {
    if (tensor.memory->multicast && tensor.memory->shared)
      why = tensor.memory->shared->no_multicast();
    if (tensor.memory->multicast && !why.empty()) break;
  }
  if (why.empty()) return;
  throw BackendError(fmt::format(
      "kernel '{}' has the algorithm 'multimem', and there is no multicast pointer to the memory "
      "of all ranks: {}; use the algorithm 'direct'",
      kernel, why));
}

Tensors::Tensor* Tensors::same_memory(const Tensor& tensor) {
  const sched::BufferId same = tensor.buffer->same_as;
  if (same < 0 || plan_.buffer(same).scattered || tensor.buffer->scattered) return nullptr;
  return &tensors_[same];
}

bool Tensors::is_shared(const sched::PlanBuffer& buffer) const {
  if (platform_.traits().shares_for_collectives) return buffer.peer_access || buffer.in_collective;
  return buffer.peer_access && comm_.size() > 1;
}

bool Tensors::belongs_in_window(const sched::PlanBuffer& buffer) const {
  return platform_.traits().has_windows && buffer.in_collective && !is_shared(buffer) &&
         buffer.role == sched::PlanBuffer::Role::temporary && buffer.same_as < 0;
}

void Tensors::use_own(Tensor& tensor) {
  TensorMemory& memory = *tensor.memory;
  if (!memory.shared && !memory.alone) memory.alone = platform_.allocate(tensor.bytes);
  std::byte* const base = memory.shared ? memory.shared->base(comm_.rank()) : memory.alone->data();
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    const std::size_t offset = memory.offset + tensor.pieces[i].offset;
    memory.places[i] = {base + offset, memory.shared, offset};
  }
  ++memory.version;
  follow(tensor);
}

void Tensors::follow(Tensor& tensor) {
  const TensorMemory& memory = *tensor.memory;
  if (tensor.version == memory.version) return;
  for (std::size_t i = 0; i < memory.places.size(); ++i) {
    TensorMemory::Place place = memory.places[i];
    Piece& piece = tensor.pieces[i];
    piece.home = place.data;
    if (needs_peers(*tensor.buffer) && place.data != nullptr && !place.peers) {
      place.peers = memory.shared;
      place.offset = memory.offset + piece.offset;
      place.data = place.peers->base(comm_.rank()) + place.offset;
    }
    piece.data = place.data;
    for (std::size_t rank = 0; rank < piece.peers.size(); ++rank) {
      std::byte* const base = place.peers ? place.peers->base(static_cast<int>(rank)) : nullptr;
      piece.peers[rank] = !place.peers      ? place.data
                          : base == nullptr ? nullptr
                                            : base + place.offset;
    }
    if (i > 0) continue;
    tensor.multicast = nullptr;
    if (needs_multicast(*tensor.buffer) && place.peers && place.peers->multicast() != nullptr)
      tensor.multicast = place.peers->multicast() + place.offset;
  }
  tensor.version = memory.version;
  ++version_;
}

void Tensors::follow_shared() {
  for (const sched::BufferId id : shared_) follow(tensors_[id]);
}

std::string Tensors::describe(const Tensor& tensor) const {
  return fmt::format("'{}', {} x {} on rank {}", tensor.buffer->name, tensor.count,
                     to_string(tensor.buffer->dtype), comm_.rank());
}

}  // namespace coconet::jit
