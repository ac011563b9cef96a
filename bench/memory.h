// Memory that the contestants share: tensors that the other rank can reach, and states.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "arrays.h"
#include "coconet/world.h"

namespace bench {

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
