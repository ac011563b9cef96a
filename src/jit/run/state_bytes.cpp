// The memory of a state as one row of bytes.
#include "jit/run/state_bytes.h"

#include <algorithm>

namespace coconet::jit {

StateBytes::StateBytes(const Tensors::Tensor& tensor, std::size_t element) {
  for (const Tensors::Piece& piece : tensor.pieces)
    pieces_.push_back({piece.begin * element, {piece.data, piece.count * element}});
}

StateBytes::StateBytes(std::span<std::byte> all) : pieces_{{0, all}} {}

std::size_t StateBytes::piece_at(std::size_t byte) const {
  const auto after = std::ranges::upper_bound(pieces_, byte, {}, &Piece::begin);
  return static_cast<std::size_t>(after - pieces_.begin()) - 1;
}

}  // namespace coconet::jit
