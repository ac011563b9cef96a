// Parts of tensors as boxes of indices; see boxes.h.
#include "jit/checkpoint/boxes.h"

#include <algorithm>
#include <cstdint>

namespace coconet::jit {
namespace {

std::int64_t place_in(const ir::Part& part, const ir::Extents& index) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < index.size(); ++d)
    place = place * part.extent[d] + (index[d] - part.begin[d]);
  return place;
}

constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;

__extension__ typedef unsigned __int128 Wide;  // NOLINT: no alias may be an extension

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b % prime);
}

std::uint64_t power(std::uint64_t base, std::int64_t exponent) {
  std::uint64_t result = 1;
  for (auto bits = static_cast<std::uint64_t>(exponent); bits != 0; bits >>= 1) {
    if ((bits & 1) != 0) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

/// The product over the dimensions of x^begin - x^end, modulo `prime`, with an x for each.
std::uint64_t polynomial(const ir::Part& part, std::uint64_t seed) {
  std::uint64_t product = 1;
  for (std::size_t d = 0; d < part.begin.size(); ++d) {
    seed = multiply(seed, 0x9e3779b97f4a7c15U) + 1;
    const std::uint64_t begin = power(seed, part.begin[d]);
    const std::uint64_t end = power(seed, part.begin[d] + part.extent[d]);
    product = multiply(product, (begin + prime - end) % prime);
  }
  return product;
}

}  // namespace

void for_each_common_run(
    const ir::Part& a, const ir::Part& b,
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
  const std::size_t rank = a.begin.size();
  ir::Part both{ir::Extents(rank), ir::Extents(rank)};
  for (std::size_t d = 0; d < rank; ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.extent[d] = std::min(a.begin[d] + a.extent[d], b.begin[d] + b.extent[d]) - both.begin[d];
    if (both.extent[d] <= 0) return;
  }
  // The last dimensions that both have whole make one run with the one before them.
  std::size_t inner = rank;
  std::int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= both.extent[inner];
    if (both.extent[inner] != a.extent[inner] || both.extent[inner] != b.extent[inner]) break;
  }
  ir::Extents index = both.begin;
  for (bool is_more = true; is_more;) {
    visit(place_in(a, index), place_in(b, index), run);
    is_more = false;
    for (std::size_t d = inner; d-- > 0 && !is_more;) {
      is_more = ++index[d] < both.begin[d] + both.extent[d];
      if (!is_more) index[d] = both.begin[d];
    }
  }
}

// The sum of x^i y^j .. over the indices of a box is its polynomial over (1 - x)(1 - y)..: elements
// are there once exactly if the parts' polynomials add up to the whole's, which two points decide
// (Schwartz 1980; a wrong yes has odds below 2^-40). They are fixed, so that all ranks agree.
bool is_tiled(const ir::Extents& whole, std::span<const ir::Part> parts) {
  if (ir::product(whole) == 0) return parts.empty();
  for (const std::uint64_t seed : {0xd1342543de82ef95U, 0x2545f4914f6cdd1dU}) {
    std::uint64_t sum = 0;
    for (const ir::Part& part : parts) sum = (sum + polynomial(part, seed)) % prime;
    if (sum != polynomial({ir::Extents(whole.size()), whole}, seed)) return false;
  }
  return true;
}

}  // namespace coconet::jit
