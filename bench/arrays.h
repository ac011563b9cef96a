// Private arrays of the contestants, on huge pages.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace bench {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
using ArrayOf = std::unique_ptr<T[], Free>;
using Array = ArrayOf<float>;

/// `n` zeros, aligned for any vector and on huge pages where the system grants them.
template <class T = float>
ArrayOf<T> make_array(std::size_t n) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t alignment = n * sizeof(T) < huge_page ? 4096 : huge_page;
  const std::size_t bytes = (n * sizeof(T) + alignment - 1) / alignment * alignment;
  auto* p = static_cast<T*>(std::aligned_alloc(alignment, bytes));
  if (p == nullptr) throw std::bad_alloc();
  if (alignment == huge_page) madvise(p, bytes, MADV_HUGEPAGE);
  std::fill_n(p, bytes / sizeof(T), T{});
  return ArrayOf<T>(p);
}

}  // namespace bench
