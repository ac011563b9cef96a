// The floor: ReduceScatter, Adam and AllGather as one loop over two ranks' shared memory, written
// by hand for this one case. A generated kernel that is as fast as this leaves nothing on the
// table.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "adam_update.h"
#include "coconet/world.h"
#include "memory.h"
#include "store_line.h"

namespace bench {

class Floor {
 public:
  /// Works on `tensors`, which must outlive it. Two ranks; `n` must be a multiple of 32. The
  /// moments are sliced.
  Floor(const coconet::World& world, Tensors& tensors, std::size_t n, bool streaming)
      : n_(n),
        streaming_(streaming),
        flags_(world.allocate(coconet::i32, flag_bytes / sizeof(std::int32_t))),
        begin_(n / 2 * static_cast<std::size_t>(world.rank())),
        m_(tensors.m.get()),
        v_(tensors.v.get()) {
    if (n % 32 != 0) throw std::invalid_argument("the floor takes sizes that are multiples of 32");
    for (int r = 0; r < 2; ++r) {
      const int place = r == world.rank() ? 0 : 1;
      flag_[place] = flags_.of<std::int32_t>(r).data();
      w_[place] = tensors.w.of<float>(r).data();
      g_[r] = tensors.g.of<float>(r).data();
    }
  }

  void step(int t) {
    const AdamScalars s(t);
    rank_barrier();  // every gradient is written
    auto* const loop = streaming_ ? &Floor::update<true> : &Floor::update<false>;
    loop(g_[0] + begin_, g_[1] + begin_, w_[0] + begin_, w_[1] + begin_, m_, v_, n_ / 2, s);
    rank_barrier();  // every weight is written
  }

 private:
  static constexpr std::size_t flag_bytes =
      128;  // a line of its own, and the one that is fetched along with it

  template <bool streaming>
  static void update(const float* __restrict g0, const float* __restrict g1, float* __restrict w,
                     float* __restrict other_w, float* __restrict m, float* __restrict v,
                     std::size_t n, const AdamScalars s) {
    for (std::size_t i = 0; i < n; i += 16) {
      alignas(64) float line[16];
      for (std::size_t l = 0; l < 16; ++l) {
        float weight = w[i + l];
        float m1 = m[i + l];
        float v1 = v[i + l];
        adam_update((g0[i + l] + g1[i + l]) * 0.5f, weight, m1, v1, s);
        line[l] = weight;
        m[i + l] = m1;
        v[i + l] = v1;
      }
      store_line<false>(w + i, line);
      store_line<streaming>(other_w + i, line);
    }
    if constexpr (streaming) end_streaming();
  }

  /// Each rank writes its own flag and polls the other's.
  void rank_barrier() {
    ++epoch_;
    std::atomic_ref(*flag_[0]).store(epoch_, std::memory_order_release);
    const std::atomic_ref other(*flag_[1]);
    for (int polls = 0; other.load(std::memory_order_acquire) < epoch_; ++polls) {
      if (polls >= 2000) sched_yield();
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
  }

  std::size_t n_;
  bool streaming_;
  coconet::Buffer flags_;
  std::size_t begin_;
  float* m_;
  float* v_;
  std::int32_t epoch_ = 0;
  const float* g_[2] = {};      // by rank, so that both ranks add in the same order
  float* w_[2] = {};            // own, other's
  std::int32_t* flag_[2] = {};  // own, other's
};

}  // namespace bench
