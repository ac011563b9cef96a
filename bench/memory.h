// Memory of the contestants: private arrays on huge pages, and tensors that the other rank can
// reach.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "coconet/world.h"

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

/// What this library's schedules and the floor work on, in turn. Where its pages happen to lie in
/// the machine's memory can make 1.5 times between equal loops, so that they must not have memory
/// of their own.
struct Tensors {
  Tensors(const coconet::World& world, std::size_t n)
      : g(world.allocate(coconet::f32, n)),
        w(world.allocate(coconet::f32, n)),
        m(make_array(n)),
        v(make_array(n)) {}

  coconet::Buffer g, w;  ///< gradient and weights: n elements that all ranks reach
  Array m, v;            ///< moments: room for n; schedules that slice them use the beginning

  /// Collective: the state before the first step.
  void reset(const coconet::World& world, std::span<const float> gradient,
             std::span<const float> weights) {
    std::ranges::copy(gradient, g.as<float>().begin());
    std::ranges::copy(weights, w.as<float>().begin());
    std::fill_n(m.get(), gradient.size(), 0.0f);
    std::fill_n(v.get(), gradient.size(), 0.0f);
    world.barrier();
  }
};

}  // namespace bench
