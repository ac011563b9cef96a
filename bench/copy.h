// A copy of as many bytes as a kernel reads and writes: what memory alone would take.
#pragma once

#include <cstddef>
#include <cstring>

#include "arrays.h"
#include "store_line.h"

namespace bench {

class Copy {
 public:
  /// Of `bytes` in all: half of them are read, half are written, in whole lines.
  explicit Copy(std::size_t bytes)
      : half_(bytes / 2 / sizeof(float) / line * line),
        from_(make_array(half_)),
        to_(make_array(half_)) {}

  /// The C library's, which may or may not write past the caches.
  void step() const {
    std::memcpy(to_.get(), from_.get(), half_ * sizeof(float));
    keep();
  }
  /// Past the caches: a third less traffic where what is written was not in them.
  void stream() const {
    for (std::size_t i = 0; i < half_; i += line) store_line<true>(to_.get() + i, from_.get() + i);
    end_streaming();
    keep();
  }

 private:
  static constexpr std::size_t line = 16;  ///< elements that store_line writes

  /// Or the copy would be left out.
  void keep() const { asm volatile("" : : "r"(to_.get()) : "memory"); }

  std::size_t half_;  ///< elements
  Array from_, to_;
};

}  // namespace bench
