// The protocols' sizes; how they work is in device/mail.h and device/lines.h.
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

namespace {

constexpr std::size_t line = 128;

std::size_t plain(std::size_t elements, std::size_t size) {
  return (elements * size + line - 1) / line * line;
}
/// Each word of up to 4 bytes takes 8.
std::size_t with_flags(std::size_t elements, std::size_t size) {
  return plain(elements, size == 8 ? 16 : 8);
}
/// Groups of 30 elements take one line, or two when they are of 8 bytes.
std::size_t in_lines(std::size_t elements, std::size_t size) {
  return (elements + 29) / 30 * (size == 8 ? 2 : 1) * line;
}

}  // namespace

constinit const Protocol simple_protocol{"simple", "", false, plain};
constinit const Protocol ll_protocol{"ll", "", false, with_flags};
constinit const Protocol ll128_protocol{"ll128", "exchange/lines.h", true, in_lines};

}  // namespace coconet::jit
