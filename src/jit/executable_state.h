// The inside of coconet::Executable.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coconet/executable.h"
#include "jit/gate.h"
#include "jit/launch.h"
#include "jit/library.h"
#include "jit/numbers.h"
#include "jit/roofline.h"
#include "jit/tensors.h"
#include "sched/plan.h"

namespace coconet {

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

class Executable::State {
 public:
  State(World world, Program program, sched::Plan plan, std::map<std::string, std::int64_t> sizes);

  void run(std::span<const ScalarValue> scalars);
  Report report();

  World world;
  Program program;  ///< after its schedule
  sched::Plan plan;
  std::map<std::string, std::int64_t> sizes;
  jit::Gate gate;
  jit::Tensors tensors;
  jit::Numbers numbers;

  struct Step {
    std::string name;
    std::string kind;
    std::variant<jit::KernelLaunch, jit::LibraryCollective> work;
    Times times;
  };
  std::vector<Step> steps;

 private:
  /// Collective: returns when the step may begin; throws on all ranks when one of them has a `failure`.
  void enter(const std::string& failure);
  void run_step(Step& step, std::size_t index);
  void check_fault(const Step& step, std::size_t index);
  [[noreturn]] void throw_together(const std::string& failure);

  std::map<int, std::unique_ptr<jit::Group>> groups_;  ///< by mesh axis, for library steps
  jit::Roofline roofline_;
  Times times_;
  std::uint64_t runs_ = 0;
  std::string broken_;  ///< why no step can run any more; empty while all is well
};

}  // namespace coconet
