// Names, and the memory that applications bind to them.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "jit/bind/tensors.h"
#include "jit/comm/access.h"

namespace coconet::jit {
namespace {

std::size_t size_of(const Tensors::Tensor& tensor) {
  return coconet::size_of(tensor.buffer->dtype);
}

/// `tensor` is what Tensors::describe says.
template <class... Args>
[[noreturn]] void refuse(const std::string& tensor, fmt::format_string<Args...> pattern,
                         Args&&... args) {
  throw BackendError(tensor + ", " + fmt::format(pattern, std::forward<Args>(args)...));
}

}  // namespace

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

Tensors::Tensor& Tensors::named(std::string_view name) {
  Tensor& tensor = tensors_[find(name)];
  follow(tensor);
  return tensor;
}

void Tensors::require_dtype(const Tensor& tensor, DType dtype) const {
  const DType own = tensor.buffer->dtype;
  if (dtype == own || (own == DType::boolean && dtype == DType::u8)) return;
  refuse(describe(tensor), "is used as {}; use it as {}", to_string(dtype), to_string(own));
}

void Tensors::require_counts(const Tensor& tensor, std::span<const std::size_t> counts) const {
  const std::size_t own = tensor.pieces.size();
  if (counts.size() != own && !tensor.buffer->scattered) {
    refuse(describe(tensor), "is one buffer, and {} are given; give one", counts.size());
  }
  if (counts.size() != own) {
    refuse(describe(tensor), "is scattered over {} buffers, and {} {} given; give a list of {}",
           own, counts.size(), counts.size() == 1 ? "is" : "are", own);
  }
  for (std::size_t i = 0; i < own; ++i) {
    if (counts[i] == tensor.pieces[i].count) continue;
    if (tensor.buffer->scattered) {
      refuse(describe(tensor), "is given {} elements as buffer {}; its list has {} there",
             counts[i], i, tensor.pieces[i].count);
    }
    refuse(describe(tensor), "is given {} elements; its layout is {}, so give {}", counts[i],
           ir::to_string(tensor.buffer->layout, plan_.mesh()), tensor.count);
  }
}

void Tensors::require_memory(const Tensor& tensor, const void* data, std::size_t count) const {
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(tensor) != 0) {
    refuse(describe(tensor), "is bound to memory that is not aligned to its {}-byte elements",
           size_of(tensor));
  }
  if (data == nullptr && count > 0) refuse(describe(tensor), "is bound to a null pointer");
  if (count > 0) platform_.require_reachable(data, describe(tensor));
}

Executable::Piece Tensors::data(std::string_view name, DType dtype,
                                std::optional<std::size_t> buffer, bool to_write) {
  Tensor& tensor = named(name);
  require_dtype(tensor, dtype);
  const std::size_t pieces = tensor.pieces.size();
  if (!buffer && pieces > 1) {
    refuse(describe(tensor),
           "is scattered over {} buffers, and data gives one of them; say which, "
           "data<T>(\"{}\", i) with i below Executable::buffers(\"{}\")",
           pieces, name, name);
  }
  if (buffer.value_or(0) >= pieces) {
    refuse(describe(tensor), "is asked for as buffer {}; it has {}, counted from 0", *buffer,
           pieces);
  }
  TensorMemory& memory = *tensor.memory;
  if (memory.read_only && to_write) {
    refuse(describe(tensor),
           "is bound to constant memory; ask for data<const T>, or bind memory "
           "that may be written");
  }
  require_whole(name);
  if (!memory.bound) use_own(tensor);
  memory.bound = true;
  memory.given_out |= !memory.foreign;
  const Piece& piece = tensor.pieces[buffer.value_or(0)];
  return {piece.home, piece.count};
}

void Tensors::use(Tensor& tensor, std::span<const Executable::Piece> buffers, bool read_only) {
  std::vector<std::size_t> counts;
  for (const Executable::Piece& one : buffers) counts.push_back(one.count);
  require_counts(tensor, counts);
  for (const Executable::Piece& one : buffers) require_memory(tensor, one.data, one.count);
  TensorMemory& memory = *tensor.memory;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    memory.places[i] = {static_cast<std::byte*>(buffers[i].data), nullptr, 0};
  memory.bound = memory.foreign = true;
  memory.read_only = read_only;
  memory.torn.clear();
  ++memory.version;
  follow(tensor);
}

void Tensors::bind(std::string_view name, DType dtype, std::span<const Executable::Piece> buffers) {
  Tensor& tensor = named(name);
  require_dtype(tensor, dtype);
  use(tensor, buffers, false);
}

void Tensors::bind(std::string_view name, DType dtype,
                   std::span<const Executable::ConstPiece> buffers) {
  Tensor& tensor = named(name);
  require_dtype(tensor, dtype);
  if (tensor.buffer->role != sched::PlanBuffer::Role::input) {
    throw BackendError(fmt::format(
        "'{}' is written by the step, but bound to constant memory; bind memory that may be "
        "written",
        name));
  }
  std::vector<Executable::Piece> pieces;  // which nothing writes
  for (const auto& one : buffers) pieces.push_back({const_cast<void*>(one.data), one.count});
  use(tensor, pieces, true);
}

void Tensors::bind(std::string_view name, std::span<const Buffer> buffers) {
  Tensor& tensor = named(name);
  std::vector<std::size_t> counts;
  for (const Buffer& buffer : buffers) {
    if (!Access::memory(buffer)) {
      throw BackendError(
          fmt::format("'{}' is bound to an empty Buffer{}; allocate one", name,
                      buffers.size() == 1 ? "" : fmt::format(" as buffer {}", counts.size())));
    }
    if (Access::memory(buffer)->ranks() != comm_.size() ||
        Access::memory(buffer)->rank() != comm_.rank()) {
      refuse(describe(tensor),
             "is bound to a Buffer of rank {} of {} of another world; allocate it in the world "
             "that the program was compiled for",
             Access::memory(buffer)->rank(), Access::memory(buffer)->ranks());
    }
    require_dtype(tensor, buffer.dtype());
    counts.push_back(buffer.count());
  }
  require_counts(tensor, counts);
  TensorMemory& memory = *tensor.memory;
  for (const Buffer& buffer : buffers) {
    if (!memory.multicast || Access::memory(buffer)->multicast() != nullptr) continue;
    refuse(describe(tensor),
           "is reached through a multicast pointer, and the Buffer has none: {}; use "
           "Executable::data, or the algorithm 'direct'",
           Access::memory(buffer)->no_multicast());
  }
  for (std::size_t i = 0; i < buffers.size(); ++i)
    memory.places[i] = {static_cast<std::byte*>(buffers[i].data()), Access::memory(buffers[i]), 0};
  memory.bound = memory.foreign = true;
  memory.read_only = false;
  ++memory.version;
  follow(tensor);
}

void Tensors::complete() {
  follow_shared();
  if (completed_ == version_) return;
  require_apart();
  for (Tensor& tensor : tensors_) {
    if (tensor.memory->bound) continue;
    if (tensor.buffer->role == sched::PlanBuffer::Role::input) {
      refuse(describe(tensor),
             "has no memory; bind data to it, write it, or fill Executable::data(\"{}\"{})",
             tensor.buffer->name, tensor.pieces.size() > 1 ? ", i" : "");
    }
    const bool has_memory = std::ranges::all_of(
        tensor.pieces, [](const Piece& piece) { return piece.home != nullptr; });
    if (!has_memory) use_own(tensor);
  }
  copied_.clear();
  for (sched::BufferId id = 0; id < tensors_.count(); ++id) {
    if (std::ranges::any_of(tensors_[id].pieces,
                            [](const Piece& piece) { return piece.data != piece.home; }))
      copied_.push_back(id);
  }
  completed_ = version_;
}

template <class Copy>
void Tensors::for_each_copied(sched::PlanBuffer::Role but, const Copy& copy) const {
  for (const sched::BufferId id : copied_) {
    const Tensor& tensor = tensors_[id];
    if (tensor.buffer->role == but) continue;
    for (const Piece& piece : tensor.pieces) copy(piece, piece.count * size_of(tensor));
  }
}

void Tensors::copy_in(Queue& queue) const {
  for_each_copied(sched::PlanBuffer::Role::output, [&](const Piece& piece, std::size_t bytes) {
    queue.copy(piece.data, piece.home, bytes);
  });
}

void Tensors::copy_out(Queue& queue) const {
  for_each_copied(sched::PlanBuffer::Role::input, [&](const Piece& piece, std::size_t bytes) {
    queue.copy(piece.home, piece.data, bytes);
  });
}

std::vector<std::string> Tensors::copied() const {
  std::vector<std::string> names;
  for (const sched::BufferId id : copied_) names.push_back(tensors_[id].buffer->name);
  return names;
}

void Tensors::require_apart() const {
  struct Bound {
    const std::byte *begin, *end;
    const Tensor* tensor;
  };
  std::vector<Bound> all;
  for (const Tensor& tensor : tensors_) {
    if (!tensor.memory->bound) continue;
    for (const Piece& piece : tensor.pieces) {
      if (piece.count > 0)
        all.push_back({piece.home, piece.home + piece.count * size_of(tensor), &tensor});
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

template <class Given>
std::vector<Given> Tensors::split(const Tensor& tensor, DType dtype,
                                  std::span<const Given> given) const {
  require_dtype(tensor, dtype);
  std::vector<std::size_t> counts;
  for (const Given& one : given) counts.push_back(one.count);
  if (given.size() != 1 || !tensor.buffer->scattered) {
    require_counts(tensor, counts);
    return {given.begin(), given.end()};
  }
  if (given.front().count != tensor.count) {
    refuse(describe(tensor), "is given {} elements; its buffers have {}", given.front().count,
           tensor.count);
  }
  std::vector<Given> pieces;
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(Given::data)>>,
                                  const std::byte, std::byte>;
  for (const Piece& piece : tensor.pieces) {
    auto* const at = static_cast<Byte*>(given.front().data) + piece.begin * size_of(tensor);
    pieces.push_back({at, piece.count});
  }
  return pieces;
}

void Tensors::write(Queue& queue, std::string_view name, DType dtype,
                    std::span<const Executable::ConstPiece> from) {
  Tensor& tensor = named(name);
  const std::vector<Executable::ConstPiece> pieces = split(tensor, dtype, from);
  TensorMemory& memory = *tensor.memory;
  if (memory.read_only)
    refuse(describe(tensor), "is bound to constant memory, which cannot be written");
  if (dtype != tensor.buffer->dtype && platform_.traits().immediate) {  // bytes, which may be any
    for (const Executable::ConstPiece& piece : pieces) {
      const std::span bytes(static_cast<const std::uint8_t*>(piece.data), piece.count);
      const auto odd = std::ranges::find_if(bytes, [](std::uint8_t byte) { return byte > 1; });
      if (odd == bytes.end()) continue;
      refuse(describe(tensor), "is given the byte {} at {}; bool is 0 or 1", *odd,
             odd - bytes.begin());
    }
  }
  if (!memory.bound) use_own(tensor);
  memory.bound = true;
  memory.torn.clear();
  for (std::size_t i = 0; i < pieces.size(); ++i)
    queue.copy(tensor.pieces[i].home, pieces[i].data, pieces[i].count * size_of(tensor));
}

void Tensors::read(Queue& queue, std::string_view name, DType dtype,
                   std::span<const Executable::Piece> to) {
  Tensor& tensor = named(name);
  const std::vector<Executable::Piece> pieces = split(tensor, dtype, to);
  require_whole(name);
  if (!tensor.memory->bound && tensor.pieces.front().home == nullptr) {
    use_own(tensor);
    tensor.memory->bound = true;
  }
  for (std::size_t i = 0; i < pieces.size(); ++i)
    queue.copy(pieces[i].data, tensor.pieces[i].home, pieces[i].count * size_of(tensor));
}

void Tensors::tear(sched::BufferId buffer, const std::string& why) {
  const sched::PlanBuffer& own = *tensors_[buffer].buffer;
  const sched::BufferId seen = own.same_as >= 0 ? own.same_as : buffer;
  const auto role = tensors_[seen].buffer->role;
  if (role == sched::PlanBuffer::Role::state || role == sched::PlanBuffer::Role::output)
    tensors_[seen].memory->torn = why;
}

std::vector<std::string> Tensors::torn() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors_) {
    if (!tensor.memory->torn.empty()) names.push_back(tensor.buffer->name);
  }
  return names;
}

void Tensors::mend_all() {
  for (Tensor& tensor : tensors_) tensor.memory->torn.clear();
}

void Tensors::zero_written(Queue& queue) {
  follow_shared();
  for (const Tensor& tensor : tensors_) {
    const auto role = tensor.buffer->role;
    if (role != sched::PlanBuffer::Role::state && role != sched::PlanBuffer::Role::output) continue;
    for (const Piece& piece : tensor.pieces) {
      // Memory that is not there yet will be zeroed.
      if (piece.home != nullptr && piece.count > 0)
        queue.zero(piece.home, piece.count * size_of(tensor));
    }
  }
  mend_all();
}

void Tensors::require_whole(std::string_view name) const {
  const Tensor& tensor = tensors_[find(name)];
  if (tensor.memory->torn.empty()) return;
  refuse(describe(tensor),
         "may be half written by a step that failed ({}); write or load it anew, or take it as it "
         "is by Executable::take_torn",
         tensor.memory->torn);
}

const Tensors::Tensor& Tensors::with_memory(std::string_view name) {
  Tensor& tensor = named(name);
  if (!tensor.memory->bound) use_own(tensor);
  tensor.memory->bound = true;
  return tensor;
}

}  // namespace coconet::jit
