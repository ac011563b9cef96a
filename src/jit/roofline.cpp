// The copy that rooflines are measured with.
#include "jit/roofline.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <string>

#include "jit/tensors.h"

namespace coconet::jit {

double Roofline::copy_ms(Comm& comm, std::uint64_t bytes) {
  std::uint64_t largest =
      bytes;  // slices differ by rank; all ranks must measure the same size together
  for (const std::string& other : comm.all_gather(std::to_string(bytes))) {
    largest = std::max<std::uint64_t>(largest, std::stoull(other));
  }
  const int exponent = std::clamp(static_cast<int>(std::bit_width(largest)) - 1, 10, 28);
  const auto known = ms_per_byte_.find(exponent);
  if (known != ms_per_byte_.end()) return known->second * static_cast<double>(bytes);

  using clock = std::chrono::steady_clock;
  const std::size_t half = std::size_t{1} << (exponent - 1);
  const PrivateMemory from(half);
  const PrivateMemory to(half);
  std::memset(from.data(), 1, half);
  std::memset(to.data(), 1, half);
  const std::size_t copies =
      std::max<std::size_t>(1, (std::size_t{1} << 22) / half);  // some ms a pass, or one copy
  double best = 0;
  comm.barrier();
  for (int pass = 0; pass < 7; ++pass) {
    const auto start = clock::now();
    for (std::size_t i = 0; i < copies; ++i) {
      std::memcpy(to.data(), from.data(), half);
      asm volatile("" ::: "memory");  // every copy counts
    }
    const double ms = std::chrono::duration<double, std::milli>(clock::now() - start).count();
    const double per_byte = ms / static_cast<double>(copies) / static_cast<double>(2 * half);
    best = pass == 0 ? per_byte : std::min(best, per_byte);
  }
  comm.barrier();
  ms_per_byte_[exponent] = best;
  return best * static_cast<double>(bytes);
}

}  // namespace coconet::jit
