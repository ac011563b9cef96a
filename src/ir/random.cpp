// The random sequence, and what is made of it.
#include "ir/random.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace coconet::ir {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multipliers[] = {0xD2511F53, 0xCD9E8D57};
  constexpr std::uint32_t key_steps[] = {0x9E3779B9, 0xBB67AE85};  // golden ratio, sqrt(3) - 1
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = multipliers[0] * counter[0];
    const std::uint64_t b = multipliers[1] * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += key_steps[0];
    key[1] += key_steps[1];
  }
  return counter;
}

std::uint32_t random_word(std::uint64_t index, std::uint64_t offset, std::uint64_t seed) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  const std::uint64_t block = index / 4;
  return philox({low(block), high(block), low(offset), high(offset)},
                {low(seed), high(seed)})[index % 4];
}

std::uint64_t dropout_threshold(double probability) {
  return static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
}

double dropout_scale(double probability) {
  return 1 / (1 - probability);
}

double rounded_stochastically(double value, std::uint32_t word) {
  if (std::isnan(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + (word & 0xffffU)) & 0xffff0000U);
}

bool is_random_offset(double number) {
  return number >= 0 && number <= 0x1p53 && std::floor(number) == number;
}

std::string random_offset_error(const Graph& graph, const Node& node, double number) {
  const Node& offset = graph.at(node.operands[1]);
  return fmt::format(
      "{} '{}' has the offset {}{:.17g}; it must be a whole number from 0 to 2^53, such as the "
      "number of the step",
      to_string(node.op), node.name,
      offset.op == Op::constant ? "" : "'" + offset.name + "' = ", number);
}

}  // namespace coconet::ir
