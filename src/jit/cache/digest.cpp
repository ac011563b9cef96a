// SHA-256, by OpenSSL.
#include "jit/cache/digest.h"

#include <openssl/evp.h>

#include "coconet/error.h"

namespace coconet::jit {

Digest sha256(std::string_view bytes) {
  Digest digest{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1 ||
      size != digest.size()) {
    throw InternalError("OpenSSL cannot compute a SHA-256.");
  }
  return digest;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += digits[value >> 4];
    text += digits[value & 15];
  }
  return text;
}

}  // namespace coconet::jit
