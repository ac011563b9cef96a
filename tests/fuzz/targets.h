// The fuzzers as functions of their input, which libFuzzer calls (entry.cpp), and the test that
// replays what was found (replay_test.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace coconet::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// A claim of the library's that an input has refuted.
class Refuted : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void require(bool holds, const std::string& claim) {
  if (!holds) throw Refuted(claim);
}

[[nodiscard]] inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Give the library what is in `bytes`. An input may be refused with an Error that is no
/// InternalError; any other exception is a finding.
#define COCONET_FUZZ_TARGET(name) void fuzz_##name(Bytes bytes);
#include "fuzz/targets.def"
#undef COCONET_FUZZ_TARGET

struct Target {
  std::string_view name;
  void (*run)(Bytes bytes);
};
inline constexpr Target targets[] = {
#define COCONET_FUZZ_TARGET(name) {#name, fuzz_##name},
#include "fuzz/targets.def"
#undef COCONET_FUZZ_TARGET
};

/// Runs `target`. Returns what the library refused its input with; empty where it took it.
[[nodiscard]] std::string run(const Target& target, Bytes bytes);

}  // namespace coconet::fuzz
