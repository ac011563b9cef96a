// Placement and binding of tensors.
#include "jit/bind/tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "jit/comm/access.h"

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

std::size_t size_of(const Tensors::Tensor& tensor) {
  return size_of(tensor.buffer->dtype);
}

/// What to call for the library's own memory of `tensor`.
const char* own_call(const Tensors::Tensor& tensor) {
  return tensor.buffer->scattered ? "buffers" : "buffer";
}

/// `tensor` is what Tensors::describe says.
template <class... Args>
[[noreturn]] void refuse(const std::string& tensor, fmt::format_string<Args...> pattern,
                         Args&&... args) {
  throw BackendError(tensor + ", " + fmt::format(pattern, std::forward<Args>(args)...));
}

}  // namespace

Tensors::Tensors(Comm& comm, const Platform& platform, const RankPlan& plan)
    : comm_(comm), platform_(platform), plan_(plan) {
  const Indexed<sched::PlanBuffer>& buffers = plan.plan().buffers;
  std::size_t shared = 0, in_window = 0, own = 0, large = 0;
  for (sched::BufferId id = 0; id < buffers.count(); ++id) {
    Tensor tensor = make(id);
    tensor.shared = is_shared(buffers[id]);
    tensors_.push_back(std::move(tensor));
  }
  for (Tensor& tensor : tensors_) {
    if (Tensor* const same = same_memory(tensor)) same->shared |= tensor.shared;
  }
  for (Tensor& tensor : tensors_) {
    if (const Tensor* const same = same_memory(tensor)) {
      tensor.shared = same->shared;
      tensor.offset = same->offset;  // which comes first
      continue;
    }
    tensor.in_window = belongs_in_window(tensor);
    std::size_t& total = tensor.shared ? shared : tensor.in_window ? in_window : own;
    if (tensor.bytes >= large_tensor) total += stagger(large++);
    tensor.offset = total;
    total += tensor.bytes;
  }
  if (platform.traits().pages_on_demand) private_ = platform.allocate(own);
  if (shared > 0) {
    const bool multicast = std::ranges::any_of(
        buffers, [&](const sched::PlanBuffer& buffer) { return needs_multicast(buffer); });
    shared_ = platform.allocate_peer(comm, shared, multicast);
  }
  // All ranks have the same tensors, if not as many elements of them.
  if (std::ranges::any_of(tensors_, &Tensor::in_window))
    window_ = platform.allocate_window(comm, in_window);
  for (Tensor& tensor : tensors_) {
    tensor.in_window = tensor.in_window && window_.memory;
    // The application always binds what is scattered.
    if (!tensor.buffer->scattered && (private_ || tensor.shared || tensor.in_window))
      use_own(tensor);
  }
}

Tensors::Tensor Tensors::make(sched::BufferId id) const {
  const sched::PlanBuffer& buffer = plan_.buffer(id);
  Tensor tensor;
  tensor.buffer = &buffer;
  tensor.count = plan_.buffer_part(id).count();
  const std::size_t block = plan_.block_count(id);
  // A process addresses 2^47 bytes; that many tensors of that many do not overflow a sum.
  if (block > (std::size_t{1} << 47) / size_of(tensor)) {
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
    tensor.pieces.push_back({begin, length, tensor.bytes, nullptr, std::vector<std::byte*>(peers)});
    begin += length;
    tensor.bytes += padded(length * size_of(tensor));
  }
  if (!buffer.scattered) tensor.bytes = padded(block * size_of(tensor));
  return tensor;
}

void Tensors::require_multicast(const std::string& kernel) const {
  if (!platform_.traits().needs_multicast || comm_.size() == 1) return;
  const std::string why = shared_ ? shared_->no_multicast() : "no tensor is reached by other ranks";
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

bool Tensors::belongs_in_window(const Tensor& tensor) const {
  const sched::PlanBuffer& buffer = *tensor.buffer;
  return platform_.traits().has_windows && buffer.in_collective && !tensor.shared &&
         buffer.role == sched::PlanBuffer::Role::temporary && buffer.same_as < 0;
}

void Tensors::use_own(Tensor& tensor) {
  const bool shared = tensor.shared;
  if (!shared && !tensor.in_window && !private_ && !tensor.own)
    tensor.own = platform_.allocate(tensor.bytes);
  const auto place = [&](int rank, std::size_t offset) -> std::byte* {
    if (tensor.own) return tensor.own->data() + offset;
    if (tensor.in_window) return window_.memory->data() + tensor.offset + offset;
    std::byte* const base = shared ? shared_->base(rank) : private_->data();
    return base == nullptr ? nullptr : base + tensor.offset + offset;
  };
  for (Piece& piece : tensor.pieces) {
    piece.data = place(comm_.rank(), piece.offset);
    for (std::size_t rank = 0; rank < piece.peers.size(); ++rank)
      piece.peers[rank] = place(static_cast<int>(rank), piece.offset);
  }
  if (needs_multicast(*tensor.buffer) && shared_->multicast() != nullptr)
    tensor.multicast = shared_->multicast() + tensor.offset;
  ++version_;
}

void Tensors::bind_own(Tensor& tensor) {
  use_own(tensor);
  mark_bound(tensor);
}

void Tensors::mark_bound(Tensor& tensor) {
  tensor.kept.clear();
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
}

std::string Tensors::describe(const Tensor& tensor) const {
  return fmt::format("'{}', {} x {} on rank {}", tensor.buffer->name, tensor.count,
                     to_string(tensor.buffer->dtype), comm_.rank());
}

sched::BufferId Tensors::find(std::string_view name) const {
  const auto& named = plan_.plan().named;
  if (const auto found = named.find(name); found != named.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [candidate, id] : named) known.push_back(candidate);
  const std::string near = ir::nearest(name, known);
  throw BackendError(fmt::format("program '{}' has no input, state or output '{}'; {}",
                                 plan_.graph().name, name,
                                 near.empty() ? fmt::format("it has {}", fmt::join(known, ", "))
                                              : fmt::format("did you mean '{}'?", near)));
}

void Tensors::require_dtype(const Tensor& tensor, DType dtype) const {
  if (dtype == tensor.buffer->dtype) return;
  refuse(describe(tensor), "is bound to {} data; give {}", to_string(dtype),
         to_string(tensor.buffer->dtype));
}

void Tensors::require_whole(const Tensor& tensor, const char* instead) const {
  if (!tensor.buffer->scattered) return;
  refuse(describe(tensor), "is scattered over {} buffers, not one; use Executable::{}",
         tensor.pieces.size(), instead);
}

void Tensors::require_scattered(const Tensor& tensor, const char* instead) const {
  if (tensor.buffer->scattered) return;
  refuse(describe(tensor), "is one buffer; use Executable::{}", instead);
}

void Tensors::require_memory(const Tensor& tensor, const void* data, std::size_t count) const {
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(tensor) != 0) {
    refuse(describe(tensor), "is bound to memory that is not aligned to its {}-byte elements",
           size_of(tensor));
  }
  if (data == nullptr && count > 0) refuse(describe(tensor), "is bound to a null pointer");
  if (count > 0) platform_.require_reachable(data, describe(tensor));
}

void Tensors::require_unreached(const Tensor& tensor) const {
  if (!tensor.buffer->peer_access || comm_.size() == 1) return;
  refuse(describe(tensor),
         "is reached by other ranks from inside a kernel, which the memory given is not open to; "
         "bind a Buffer of World::allocate, or use Executable::{}",
         own_call(tensor));
}

Tensors::Tensor& Tensors::checked(std::string_view name, DType dtype, std::size_t count) {
  Tensor& tensor = tensors_[find(name)];
  require_dtype(tensor, dtype);
  if (count != tensor.count) {
    refuse(describe(tensor), "is bound to {} elements; its layout is {}, so give {}", count,
           ir::to_string(tensor.buffer->layout, plan_.mesh()), tensor.count);
  }
  return tensor;
}

Tensors::Tensor& Tensors::checked_scattered(std::string_view name, DType dtype,
                                            std::span<const std::size_t> counts) {
  Tensor& tensor = tensors_[find(name)];
  require_scattered(tensor, "bind");
  require_dtype(tensor, dtype);
  if (counts.size() != tensor.pieces.size()) {
    refuse(describe(tensor), "is bound to {} buffers; its list has {}", counts.size(),
           tensor.pieces.size());
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == tensor.pieces[i].count) continue;
    refuse(describe(tensor), "is bound to {} elements as buffer {}; its list has {} there",
           counts[i], i, tensor.pieces[i].count);
  }
  return tensor;
}

void* Tensors::own(std::string_view name, DType dtype) {
  Tensor& tensor = tensors_[find(name)];
  if (dtype != tensor.buffer->dtype) {
    refuse(describe(tensor), "is asked for as {}; ask for {}", to_string(dtype),
           to_string(tensor.buffer->dtype));
  }
  require_whole(tensor, "buffers");
  bind_own(tensor);
  return tensor.data();
}

std::vector<Executable::Piece> Tensors::own_scattered(std::string_view name, DType dtype) {
  Tensor& tensor = tensors_[find(name)];
  require_scattered(tensor, "buffer");
  require_dtype(tensor, dtype);
  bind_own(tensor);
  std::vector<Executable::Piece> pieces;
  for (const Piece& piece : tensor.pieces) pieces.push_back({piece.data, piece.count});
  return pieces;
}

void Tensors::bind(std::string_view name, DType dtype, void* data, std::size_t count) {
  Tensor& tensor = checked(name, dtype, count);
  require_whole(tensor, "bind_scattered");
  const Executable::Piece whole{data, count};
  use(tensor, {&whole, 1});
}

void Tensors::bind_scattered(std::string_view name, DType dtype,
                             std::span<const Executable::Piece> pieces) {
  std::vector<std::size_t> counts;
  for (const Executable::Piece& piece : pieces) counts.push_back(piece.count);
  use(checked_scattered(name, dtype, counts), pieces);
}

void Tensors::use(Tensor& tensor, std::span<const Executable::Piece> pieces) {
  require_unreached(tensor);
  for (const Executable::Piece& piece : pieces) require_memory(tensor, piece.data, piece.count);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    tensor.pieces[i].data = static_cast<std::byte*>(pieces[i].data);
    std::ranges::fill(tensor.pieces[i].peers, tensor.pieces[i].data);
  }
  mark_bound(tensor);
}

void Tensors::bind_read_only(std::string_view name, DType dtype, const void* data,
                             std::size_t count) {
  Tensor& tensor = tensors_[find(name)];
  if (tensor.buffer->role != sched::PlanBuffer::Role::input) {
    throw BackendError(fmt::format(
        "'{}' is written by the step, but bound to constant memory; bind memory that may be "
        "written",
        name));
  }
  bind(name, dtype, const_cast<void*>(data), count);
  tensor.read_only = true;
}

void Tensors::bind(std::string_view name, const Buffer& buffer) {
  if (!Access::memory(buffer))
    throw BackendError(fmt::format("'{}' is bound to an empty Buffer; allocate one", name));
  Tensor& tensor = checked(name, buffer.dtype(), buffer.count());
  require_whole(tensor, "bind_scattered");
  if (needs_multicast(*tensor.buffer)) {
    if (Access::memory(buffer)->multicast() == nullptr) {
      refuse(describe(tensor),
             "is reached through a multicast pointer, and the Buffer has none: {}; use "
             "Executable::buffer, or the algorithm 'direct'",
             Access::memory(buffer)->no_multicast());
    }
    tensor.multicast = Access::memory(buffer)->multicast();
  }
  use(tensor, {&buffer, 1});
}

void Tensors::bind_scattered(std::string_view name, std::span<const Buffer> buffers) {
  std::vector<std::size_t> counts;
  for (const Buffer& buffer : buffers) {
    if (!Access::memory(buffer)) {
      throw BackendError(fmt::format("'{}' is bound to an empty Buffer as buffer {}; allocate one",
                                     name, counts.size()));
    }
    counts.push_back(buffer.count());
  }
  const Tensor& named = tensors_[find(name)];
  for (const Buffer& buffer : buffers) require_dtype(named, buffer.dtype());
  use(checked_scattered(name, named.buffer->dtype, counts), buffers);
}

void Tensors::use(Tensor& tensor, std::span<const Buffer> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Piece& piece = tensor.pieces[i];
    piece.data = static_cast<std::byte*>(buffers[i].data());
    for (std::size_t rank = 0; rank < piece.peers.size(); ++rank)
      piece.peers[rank] = Access::memory(buffers[i])->base(static_cast<int>(rank));
  }
  mark_bound(tensor);
  tensor.kept.assign(buffers.begin(), buffers.end());
}

void Tensors::complete() {
  if (completed_ == version_) return;
  require_apart();
  for (Tensor& tensor : tensors_) {
    if (tensor.bound) continue;
    if (tensor.buffer->role == sched::PlanBuffer::Role::input) {
      refuse(describe(tensor), "has no memory; bind data to it, or fill Executable::{}(\"{}\")",
             own_call(tensor), tensor.buffer->name);
    }
    const bool has_memory = std::ranges::all_of(
        tensor.pieces, [](const Piece& piece) { return piece.data != nullptr; });
    if (!has_memory) use_own(tensor);
  }
  completed_ = version_;
}

void Tensors::require_apart() const {
  struct Bound {
    const std::byte *begin, *end;
    const Tensor* tensor;
  };
  std::vector<Bound> all;
  for (const Tensor& tensor : tensors_) {
    if (!tensor.bound) continue;
    for (const Piece& piece : tensor.pieces) {
      if (piece.count > 0)
        all.push_back({piece.data, piece.data + piece.count * size_of(tensor), &tensor});
    }
  }
  std::ranges::sort(all, {}, &Bound::begin);
  const Bound *last_input = nullptr, *last_written = nullptr;  // those that end last
  for (const Bound& one : all) {
    const bool is_input = one.tensor->buffer->role == sched::PlanBuffer::Role::input;
    for (const Bound* const other : {last_written, is_input ? nullptr : last_input}) {
      if (other == nullptr || other->end <= one.begin || other->tensor == one.tensor) continue;
      refuse(describe(*one.tensor),
             "shares memory with '{}': a step that writes one of them would change the other; bind "
             "memory of its own to each",
             other->tensor->buffer->name);
    }
    const Bound*& last = is_input ? last_input : last_written;
    if (last == nullptr || last->end < one.end) last = &one;
  }
}

void Tensors::write(Queue& queue, std::string_view name, DType dtype, const void* from,
                    std::size_t count) {
  Tensor& tensor = checked(name, dtype, count);
  if (tensor.read_only)
    refuse(describe(tensor), "is bound to constant memory, which cannot be written");
  if (!tensor.bound) bind_own(tensor);
  const std::size_t size = size_of(dtype);
  for (const Piece& piece : tensor.pieces) {
    queue.copy(piece.data, static_cast<const std::byte*>(from) + piece.begin * size,
               piece.count * size);
  }
}

void Tensors::read(Queue& queue, std::string_view name, DType dtype, void* to, std::size_t count) {
  Tensor& tensor = checked(name, dtype, count);
  if (!tensor.bound && tensor.data() == nullptr) bind_own(tensor);
  const std::size_t size = size_of(dtype);
  for (const Piece& piece : tensor.pieces) {
    queue.copy(static_cast<std::byte*>(to) + piece.begin * size, piece.data, piece.count * size);
  }
}

}  // namespace coconet::jit
