// Integers in files: unsigned, the least significant byte first, on every machine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace coconet::jit {

template <class Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i)
    bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

/// `bytes` must have them from `offset` on.
template <class Unsigned>
[[nodiscard]] Unsigned little_endian(std::string_view bytes, std::size_t offset) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value |= static_cast<Unsigned>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  }
  return value;
}

}  // namespace coconet::jit
