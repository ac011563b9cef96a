// Placement and binding of scattered tensors, buffer by buffer.
#include "coconet/error.h"
#include "jit/bind/tensors.h"

namespace coconet::jit {

std::vector<void*> Tensors::own_pieces(std::string_view name, DType dtype) {
  const auto id = static_cast<std::size_t>(find(name));
  Tensor& tensor = tensors_[id];
  require_scattered(tensor, "buffer");
  require_dtype(tensor, dtype);
  std::byte* const own = own_memory(id);
  std::vector<void*> places;
  for (Piece& piece : tensor.pieces) {
    piece.data = own + piece.offset;
    for (std::size_t rank = 0; rank < piece.peers.size(); ++rank) {
      piece.peers[rank] =
          shared_ ? of_peer(static_cast<int>(rank), offsets_[id] + piece.offset) : piece.data;
    }
    places.push_back(piece.data);
  }
  buffers_.erase(static_cast<sched::BufferId>(id));
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
  return places;
}

Tensors::Tensor& Tensors::checked_pieces(std::string_view name, DType dtype,
                                         std::span<const std::size_t> counts) {
  Tensor& tensor = tensors_[static_cast<std::size_t>(find(name))];
  require_scattered(tensor, "bind");
  require_dtype(tensor, dtype);
  if (counts.size() != tensor.pieces.size()) {
    throw BackendError(describe(tensor) + ", is bound to " + std::to_string(counts.size()) +
                       " buffers; its list has " + std::to_string(tensor.pieces.size()));
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == tensor.pieces[i].count) continue;
    throw BackendError(describe(tensor) + ", is bound to " + std::to_string(counts[i]) +
                       " elements as buffer " + std::to_string(i) + "; its list has " +
                       std::to_string(tensor.pieces[i].count) + " there");
  }
  return tensor;
}

void Tensors::require_scattered(const Tensor& tensor, const char* instead) const {
  if (tensor.buffer->scattered) return;
  throw BackendError(describe(tensor) + ", is one buffer; use Executable::" + instead);
}

void Tensors::bind_pieces(std::string_view name, DType dtype,
                          std::span<const Executable::Piece> pieces) {
  std::vector<std::size_t> counts;
  for (const Executable::Piece& piece : pieces) counts.push_back(piece.count);
  Tensor& tensor = checked_pieces(name, dtype, counts);
  require_unreached(tensor);
  for (const Executable::Piece& piece : pieces) require_memory(tensor, piece.data, piece.count);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    tensor.pieces[i].data = static_cast<std::byte*>(pieces[i].data);
    for (std::byte*& peer : tensor.pieces[i].peers) peer = tensor.pieces[i].data;
  }
  buffers_.erase(find(name));
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
}

void Tensors::bind_pieces(std::string_view name, std::span<const Buffer> buffers) {
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
  Tensor& tensor = checked_pieces(name, named.buffer->dtype, counts);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Piece& piece = tensor.pieces[i];
    piece.data = static_cast<std::byte*>(buffers[i].data());
    for (std::size_t rank = 0; rank < piece.peers.size(); ++rank)
      piece.peers[rank] = buffers[i].memory()->base(static_cast<int>(rank));
  }
  buffers_[find(name)] = {buffers.begin(), buffers.end()};
  tensor.bound = true;
  tensor.read_only = false;
  ++version_;
}

}  // namespace coconet::jit
