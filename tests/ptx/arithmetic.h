// What instructions compute from registers and numbers alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ptx/text.h"

namespace coconet::test::ptx {

/// The last part of a mnemonic: "s64", "b32", "pred".
struct Type {
  explicit Type(const std::string& name);
  int bits = 64;
  bool is_signed = false;
  /// `value` cut to the type, its sign extended.
  [[nodiscard]] std::uint64_t cut(std::uint64_t value) const;
};

/// What `instruction` makes of `in`, the values of its operands but the first; nothing where it is
/// no arithmetic that is known here.
[[nodiscard]] std::optional<std::uint64_t> compute(const Instruction& instruction,
                                                   std::span<const std::uint64_t> in);

}  // namespace coconet::test::ptx
