// Reductions over ranks, for every type of the library.
#include "arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace stub {
namespace {

template <class T>
T read_at(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
auto widened(T x) {
  if constexpr (std::is_same_v<T, __half>) {
    return static_cast<double>(__half2float(x));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return static_cast<double>(__bfloat162float(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(x);
  } else {
    return static_cast<std::int64_t>(x);
  }
}

template <class T, class Wide>
T narrowed(Wide x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __double2half(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __double2bfloat16(x);
  } else {
    return static_cast<T>(x);
  }
}

// Signed integers wrap.
std::uint64_t bits(std::int64_t x) {
  return static_cast<std::uint64_t>(x);
}
double bits(double x) {
  return x;
}

template <class Wide>
Wide combined(Wide a, Wide b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<Wide>(bits(a) * bits(b));
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<Wide>(bits(a) + bits(b));
  }
}

template <class T>
void reduce_as(char* to, const std::vector<const char*>& from, std::size_t count, ncclRedOp_t op) {
  for (std::size_t i = 0; i < count; ++i) {
    auto total = widened(read_at<T>(from[0] + i * sizeof(T)));
    for (std::size_t rank = 1; rank < from.size(); ++rank)
      total = combined(total, widened(read_at<T>(from[rank] + i * sizeof(T))), op);
    if (op == ncclAvg) total /= static_cast<decltype(total)>(from.size());
    const T result = narrowed<T>(total);
    std::memcpy(to + i * sizeof(T), &result, sizeof(T));
  }
}

struct Type {
  std::size_t width;
  decltype(&reduce_as<float>) reduce;
};

template <class T>
constexpr Type type_of = {sizeof(T), reduce_as<T>};

Type number_type(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return type_of<std::int8_t>;
    case ncclUint8:
      return type_of<std::uint8_t>;
    case ncclInt32:
      return type_of<std::int32_t>;
    case ncclInt64:
      return type_of<std::int64_t>;
    case ncclFloat16:
      return type_of<__half>;
    case ncclBfloat16:
      return type_of<__nv_bfloat16>;
    case ncclFloat32:
      return type_of<float>;
    case ncclFloat64:
      return type_of<double>;
    default:
      return {0, nullptr};
  }
}

}  // namespace

std::size_t width_of(ncclDataType_t type) {
  return number_type(type).width;
}

void reduce(char* to, const std::vector<const char*>& from, std::size_t count, ncclDataType_t type,
            ncclRedOp_t op) {
  number_type(type).reduce(to, from, count, op);
}

}  // namespace stub
