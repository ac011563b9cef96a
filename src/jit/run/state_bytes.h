// The memory of a state on this rank as one row of bytes, wherever its buffers are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "jit/bind/tensors.h"

namespace coconet::jit {

class StateBytes {
 public:
  /// That of `tensor`, which the processor reaches; must not be bound elsewhere meanwhile.
  StateBytes(const Tensors::Tensor& tensor, std::size_t element) {
    for (const Tensors::Piece& piece : tensor.pieces)
      pieces_.push_back({piece.begin * element, {piece.home, piece.count * element}});
  }
  /// Other memory that stands for it.
  explicit StateBytes(std::span<std::byte> all) : pieces_{{0, all}} {}

  /// Calls visit(memory) for bytes `begin` to `begin + bytes`, in order, piece by piece.
  template <class Visit>
  void for_each(std::size_t begin, std::size_t bytes, const Visit& visit) const {
    for (std::size_t i = piece_at(begin); bytes > 0; ++i) {
      const std::size_t skipped = begin - pieces_[i].begin;
      const std::size_t count = std::min(bytes, pieces_[i].memory.size() - skipped);
      if (count > 0) visit(pieces_[i].memory.subspan(skipped, count));
      begin += count;
      bytes -= count;
    }
  }

 private:
  struct Piece {
    std::size_t begin;
    std::span<std::byte> memory;
  };
  /// The last piece that begins at `byte` or before.
  [[nodiscard]] std::size_t piece_at(std::size_t byte) const {
    const auto after = std::ranges::upper_bound(pieces_, byte, {}, &Piece::begin);
    return static_cast<std::size_t>(after - pieces_.begin()) - 1;
  }

  std::vector<Piece> pieces_;
};

}  // namespace coconet::jit
