// How long a program of thousands of values takes from its text to its kernels: built, rewritten by
// 25 steps of a schedule, lowered to a plan, and written as kernels. The floor is a program of
// fewer values, as many times as it takes: a ratio of 1 is linear.
#include <chrono>
#include <variant>
#include <vector>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "rows.h"
#include "sched/large_program.h"
#include "sched/plan.h"
#include "timing.h"

namespace {

using coconet::test::LargeProgram;

/// Milliseconds of each part, in order; the last is that of all.
struct Times {
  static constexpr const char* names[] = {"build", "25 steps of a schedule", "lower", "kernel text",
                                          "all"};
  double ms[5] = {};
  std::size_t values = 0;
};

Times measure_once(int layers) {
  Times times;
  auto last = std::chrono::steady_clock::now();
  const auto lap = [&](int part) {
    const auto now = std::chrono::steady_clock::now();
    times.ms[part] = std::chrono::duration<double, std::milli>(now - last).count();
    times.ms[4] += times.ms[part];
    last = now;
  };
  const LargeProgram large(layers);
  lap(0);
  coconet::Program scheduled = LargeProgram::schedule().apply(large.program()).back();
  lap(1);
  const coconet::sched::Plan plan = coconet::sched::lower(*coconet::ir::graph_of(scheduled));
  lap(2);
  for (const coconet::sched::PlanStep& step : plan.steps) {
    if (const auto* kernel = std::get_if<coconet::sched::KernelStep>(&step))
      (void)coconet::jit::generate(plan, *kernel);
  }
  lap(3);
  times.values = coconet::ir::graph_of(large.program())->nodes().size();
  return times;
}

/// Medians of interleaved samples of programs of `layers`, in order.
std::vector<Times> measure(const std::vector<int>& layers, int samples) {
  std::vector<std::vector<Times>> all(layers.size());
  for (int sample = 0; sample < samples; ++sample) {
    for (std::size_t i = 0; i < layers.size(); ++i) all[i].push_back(measure_once(layers[i]));
  }
  std::vector<Times> medians;
  for (std::vector<Times>& of_one : all) {
    Times& median = medians.emplace_back(of_one.front());
    for (int part = 0; part < 5; ++part) {
      std::vector<double> ms;
      for (const Times& times : of_one) ms.push_back(times.ms[part]);
      median.ms[part] = bench::median(ms);
    }
  }
  return medians;
}

void run(const bench::Options& options) {
  bench::Rows rows("planning", 1, true, options.json);
  // Of about 6,000, 10,000 and 20,000 values; the floor of each is the one before it.
  const std::vector<Times> all = measure({13, 22, 44}, options.quick ? 3 : 9);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const double share =
        static_cast<double>(all[i].values) / static_cast<double>(all[i - 1].values);
    for (int part = 0; part < 5; ++part)
      rows.add({.name = Times::names[part],
                .n = all[i].values,
                .ms = all[i].ms[part],
                .floor_ms = share * all[i - 1].ms[part]});
  }
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
