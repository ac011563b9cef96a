// Placement and binding of scattered tensors, buffer by buffer.
#include "coconet/error.h"
#include "jit/bind/tensors.h"

namespace coconet::jit {

std::vector<void*> Tensors::own_scattered(std::string_view name, DType dtype) {
  const auto id = static_cast<std::size_t>(find(name));
  Tensor& tensor = tensors_[id];
  require_scattered(tensor, "buffer");
  require_dtype(tensor, dtype);
  std::byte* const own = own_memory(id);
  std::vector<void*> places;
  for (ScatteredBuffer& buffer : tensor.buffers) {
    buffer.data = own + buffer.offset;
    for (std::size_t rank = 0; rank < buffer.peers.size(); ++rank) {
      buffer.peers[rank] =
          shared_ ? of_peer(static_cast<int>(rank), offsets_[id] + buffer.offset) : buffer.data;
    }
    places.push_back(buffer.data);
  }
  buffers_.erase(static_cast<sched::BufferId>(id));
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
  return places;
}

Tensors::Tensor& Tensors::checked_scattered(std::string_view name, DType dtype,
                                            std::span<const std::size_t> counts) {
  Tensor& tensor = tensors_[static_cast<std::size_t>(find(name))];
  require_scattered(tensor, "bind");
  require_dtype(tensor, dtype);
  if (counts.size() != tensor.buffers.size()) {
    throw BackendError(describe(tensor) + ", is bound to " + std::to_string(counts.size()) +
                       " buffers; its list has " + std::to_string(tensor.buffers.size()));
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == tensor.buffers[i].count) continue;
    throw BackendError(describe(tensor) + ", is bound to " + std::to_string(counts[i]) +
                       " elements as buffer " + std::to_string(i) + "; its list has " +
                       std::to_string(tensor.buffers[i].count) + " there");
  }
  return tensor;
}

void Tensors::require_scattered(const Tensor& tensor, const char* instead) const {
  if (tensor.buffer->scattered) return;
  throw BackendError(describe(tensor) + ", is one buffer; use Executable::" + instead);
}

void Tensors::bind_scattered(std::string_view name, DType dtype,
                             std::span<const Executable::Piece> pieces) {
  std::vector<std::size_t> counts;
  for (const Executable::Piece& piece : pieces) counts.push_back(piece.count);
  Tensor& tensor = checked_scattered(name, dtype, counts);
  require_unreached(tensor);
  for (const Executable::Piece& piece : pieces) require_memory(tensor, piece.data, piece.count);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    tensor.buffers[i].data = static_cast<std::byte*>(pieces[i].data);
    for (std::byte*& peer : tensor.buffers[i].peers) peer = tensor.buffers[i].data;
  }
  buffers_.erase(find(name));
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
}

void Tensors::bind_scattered(std::string_view name, std::span<const Buffer> buffers) {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].memory()) {
      throw BackendError("'" + std::string(name) + "' is bound to an empty Buffer as buffer " +
                         std::to_string(i) + "; allocate one");
    }
    counts.push_back(buffers[i].count());
  }
  const Tensor& named = tensors_[static_cast<std::size_t>(find(name))];
  for (const Buffer& buffer : buffers) require_dtype(named, buffer.dtype());
  Tensor& tensor = checked_scattered(name, named.buffer->dtype, counts);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    ScatteredBuffer& place = tensor.buffers[i];
    place.data = static_cast<std::byte*>(buffers[i].data());
    for (std::size_t rank = 0; rank < place.peers.size(); ++rank)
      place.peers[rank] = buffers[i].memory()->base(static_cast<int>(rank));
  }
  buffers_[find(name)] = {buffers.begin(), buffers.end()};
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
}

}  // namespace coconet::jit
