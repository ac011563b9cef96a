// The prelude: the text of the other headers in this folder and of jit/abi, embedded at build time.
// Kernels are compiled from it; the library itself never includes it.
#pragma once

#include <string_view>

namespace coconet::jit {

/// The text of the prelude header `name` ("host/host.h"); empty when there is none of that name.
[[nodiscard]] std::string_view prelude_file(std::string_view name);
/// Its SHA-256, 64 hexadecimal digits.
[[nodiscard]] std::string_view prelude_digest(std::string_view name);

}  // namespace coconet::jit
