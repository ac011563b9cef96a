// What the library and the kernels that it compiles must agree on. The other headers of this folder
// are written once, in the dialect of kernels: they are part of the prelude's text, and here they
// are the library's, in a namespace. They include nothing and know no `#ifdef`; sizes and offsets
// are asserted in them, and so on both sides.
#pragma once

#include <cstddef>
#include <cstdint>

#define DEVICE [[maybe_unused]] static inline
#define DEVICE_MEMBER inline
#define OFFSET_OF(member, ...) __builtin_offsetof(__VA_ARGS__, member)

namespace coconet::jit::abi {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using f64 = double;
using index_t = std::int64_t;

// clang-format off
#include "jit/abi/launch.h"
#include "jit/abi/slices.h"
#include "jit/abi/mailboxes.h"
#include "jit/abi/topologies.h"
#include "jit/abi/tiles.h"
#include "jit/abi/buckets.h"
#include "jit/abi/segments.h"
#include "jit/abi/lookups.h"
// clang-format on

}  // namespace coconet::jit::abi

#undef DEVICE
#undef DEVICE_MEMBER
#undef OFFSET_OF
