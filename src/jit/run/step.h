// One step of an executable: a kernel ready to launch, a library collective or a matmul.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "jit/run/launch.h"
#include "jit/run/library.h"
#include "jit/run/matmul.h"

namespace coconet::jit {

/// The last times of something, for a median.
class Times {
 public:
  void add(std::chrono::nanoseconds time) {
    if (recorded_.size() < capacity) {
      recorded_.push_back(time);
    } else {
      recorded_[next_++ % capacity] = time;
    }
  }
  [[nodiscard]] double median_ms() const;

 private:
  static constexpr std::size_t capacity = 1024;
  std::vector<std::chrono::nanoseconds> recorded_;
  std::size_t next_ = 0;
};

struct Step {
  std::string name;
  std::string kind;
  std::variant<KernelLaunch, LibraryCollective, Matmul> work;
  Times times;  ///< on the host
};

}  // namespace coconet::jit
