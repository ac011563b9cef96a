// Sums, means and products of 16-bit floats between the ranks of a world: added in f32, in the
// order of the ranks, and rounded once, whichever way they go. Run by all ranks, as comm_checks.h.
#pragma once

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "jit/comm/comm_checks.h"

namespace coconet::test {

/// What `rank` has: numbers of which two may be beyond what f16 holds together, or that multiply to
/// what it does not hold on the way.
template <class T>
std::vector<T> numbers_16_bit(int rank, std::size_t count, Reduction reduction) {
  std::vector<float> wide(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761U + rank * 40503U + 12345U);
    const float number = static_cast<float>(mixed >> 8 & 0xffffU) / 65536.0F;  // 0 to 1
    const bool odd = (mixed >> 7 & 1U) != 0;
    if (reduction == Reduction::prod) {
      wide[i] = (odd ? 700 : 0.002F) * (0.5F + number);
    } else {
      wide[i] = (odd ? -1.0F : 1.0F) * 65504 * number * number;
    }
  }
  std::vector<T> numbers(count);
  convert(wide, std::span<T>(numbers));
  return numbers;
}

/// Those of all `ranks`, combined in f32 and rounded once.
template <class T>
std::vector<T> combined_16_bit(int ranks, std::size_t count, Reduction reduction) {
  std::vector<float> total(count), next(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<T> numbers = numbers_16_bit<T>(rank, count, reduction);
    convert(std::span<const T>(numbers), rank == 0 ? std::span(total) : std::span(next));
    if (rank == 0) continue;
    for (std::size_t i = 0; i < count; ++i)
      total[i] = reduction == Reduction::prod ? total[i] * next[i] : total[i] + next[i];
  }
  if (reduction == Reduction::mean) {
    for (float& one : total) one /= static_cast<float>(ranks);
  }
  std::vector<T> rounded(count);
  convert(total, std::span<T>(rounded));
  return rounded;
}

template <class T>
bool same_bits(const T* a, const T* b, std::size_t count) {
  const auto bits = [](const T& one) { return one.bits; };
  return std::ranges::equal(std::span(a, count), std::span(b, count), {}, bits, bits);
}

/// All reductions between ranks of `count` elements, from `in` to `out`.
template <class T>
void check_16_bit(Group& group, std::size_t count, Reduction reduction, T* in, T* out) {
  constexpr DType dtype = dtype_of<T>;
  const std::string what = " of " + std::to_string(count) + " " + std::string(to_string(dtype)) +
                           " under " + std::string(to_string(reduction)) + " on " +
                           std::to_string(group.size()) + " ranks is rounded once";
  std::ranges::copy(numbers_16_bit<T>(group.rank(), count, reduction), in);
  const std::vector<T> all = combined_16_bit<T>(group.size(), count, reduction);
  group.all_reduce(in, out, count, dtype, reduction);
  expect(same_bits(out, all.data(), count), "an all_reduce" + what);

  // The first rank has a block of its own length.
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::size_t> counts(ranks, count / ranks);
  counts.front() += count % ranks;
  const std::size_t start = std::accumulate(counts.begin(), counts.begin() + group.rank(), 0UL);
  const std::size_t own = counts[static_cast<std::size_t>(group.rank())];
  group.reduce_scatter(in, out, counts, dtype, reduction);
  expect(same_bits(out, all.data() + start, own), "a reduce_scatter" + what);

  const int root = group.size() - 1;
  const T untouched(0.375);
  std::fill_n(out, count, untouched);
  group.reduce(in, out, count, dtype, reduction, root);
  const std::vector<T> expected = group.rank() == root ? all : std::vector<T>(count, untouched);
  expect(same_bits(out, expected.data(), count), "a reduce" + what);
}

/// The mean of 60,000, of which f16 holds no two together.
inline void check_mean_of_f16(Group& group, std::size_t count) {
  const std::vector<Half> in(count, Half(60000));
  std::vector<Half> out(count);
  group.all_reduce(in.data(), out.data(), count, f16, Reduction::mean);
  expect(same_bits(out.data(), in.data(), count), "the mean of 60,000 in f16 is 60,000");
}

/// In messages of all the ways: through shared memory, where the tensors are, and by MPI in one
/// piece and in several.
inline void check_16_bit(jit::Comm& comm) {
  Group group(comm);
  for (const auto& [count, by_mpi] :
       {std::pair{1000UL, false}, std::pair{100'000UL, false}, std::pair{300'000UL, false},
        std::pair{1000UL, true}, std::pair{600'001UL, true}}) {
    group.go_by_mpi(by_mpi);
    check_mean_of_f16(group, count);
    const auto memory = comm.allocate(2 * count * sizeof(Half) + 64);
    auto* const shared = reinterpret_cast<BFloat16*>(memory->base(memory->rank()));
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::prod}) {
      if (reduction == Reduction::prod && count > 1000) continue;
      std::vector<Half> in(count), out(count);
      check_16_bit(group, count, reduction, in.data(), out.data());
      check_16_bit(group, count, reduction, shared, shared + count + 32 - count % 32);
    }
  }
}

}  // namespace coconet::test
