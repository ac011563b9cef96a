// What ops draw at random, which typing, reference and code generation share: the sequence, and
// what dropout and stochastic rounding make of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace coconet::ir {

/// Philox4x32-10: four random words of a counter and a key (Salmon et al., Parallel Random Numbers:
/// As Easy as 1, 2, 3, SC 2011). Kernels have their own, in jit/prelude/philox.h.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

/// The random word of element `index` of a whole tensor, in row-major order.
[[nodiscard]] std::uint32_t random_word(std::uint64_t index, std::uint64_t offset,
                                        std::uint64_t seed);

/// Elements whose word is less than this are dropped: round(probability * 2^32).
[[nodiscard]] std::uint64_t dropout_threshold(double probability);

/// What the others are multiplied by, so that the expected value stays: 1 / (1 - probability).
[[nodiscard]] double dropout_scale(double probability);

/// `value`, an f32, as one of the two bf16 around it: away from zero where the lower half of its
/// bits and the lower half of `word` carry. Numbers of bf16, infinities and NaN stay.
[[nodiscard]] double rounded_stochastically(double value, std::uint32_t word);

/// Whether a number may be the offset: whole and from 0 to 2^53, as far as a double counts.
[[nodiscard]] bool is_random_offset(double number);

/// The sentence about `node`, which draws, and whose offset has the value `number`, which is none.
[[nodiscard]] std::string random_offset_error(const Graph& graph, const Node& node, double number);

}  // namespace coconet::ir
