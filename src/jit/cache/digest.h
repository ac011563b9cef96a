// SHA-256, by OpenSSL.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace coconet::jit {

using Digest = std::array<unsigned char, 32>;

[[nodiscard]] Digest sha256(std::string_view bytes);

/// `bytes` as hexadecimal digits, two for each.
[[nodiscard]] std::string hex(std::string_view bytes);
[[nodiscard]] inline std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}
[[nodiscard]] inline std::string hex(const Digest& digest) {
  return hex(bytes_of(digest));
}
[[nodiscard]] inline std::string sha256_hex(std::string_view bytes) {
  return hex(sha256(bytes));
}

}  // namespace coconet::jit
