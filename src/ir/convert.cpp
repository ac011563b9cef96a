// Conversions of arrays between f32 and 16-bit floats.
#include <fmt/format.h>

#include "coconet/dtype.h"
#include "coconet/error.h"
#include "ir/half.h"

namespace coconet {
namespace {

void require_room(std::size_t given, std::size_t room) {
  if (given == room) return;
  throw BackendError(fmt::format(
      "convert was given {} elements, and room for {}; both must be as many", given, room));
}

template <class T>
void narrow(std::span<const float> from, std::span<T> to) {
  require_room(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = ir::narrowed<T>(from[i]);
}

template <class T>
void widen(std::span<const T> from, std::span<float> to) {
  require_room(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = ir::widened(from[i]);
}

}  // namespace

void convert(std::span<const float> from, std::span<Half> to) {
  narrow(from, to);
}
void convert(std::span<const float> from, std::span<BFloat16> to) {
  narrow(from, to);
}
void convert(std::span<const Half> from, std::span<float> to) {
  widen(from, to);
}
void convert(std::span<const BFloat16> from, std::span<float> to) {
  widen(from, to);
}

}  // namespace coconet
