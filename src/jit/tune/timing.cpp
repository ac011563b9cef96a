// Timing executables.
#include "jit/tune/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "ir/graph.h"
#include "jit/comm/comm.h"

namespace coconet::jit {
namespace {

constexpr double sample_ms = 2;  // or one step

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Collective: the largest of all ranks' `mine`.
double largest(Comm& comm, double mine) {
  char bytes[sizeof mine];
  std::memcpy(bytes, &mine, sizeof mine);
  for (const std::string& other : comm.all_gather({bytes, sizeof bytes})) {
    double value = 0;
    std::memcpy(&value, other.data(), sizeof value);
    mine = std::max(mine, value);
  }
  return mine;
}

}  // namespace

Contestant::Contestant(const World& world, const Program& program, const Schedule& schedule,
                       const Sizes& sizes)
    : world_(world), step_(compile(program, schedule, world, sizes)) {
  fill();
  double before = run(1);
  for (int round = 0; round < 10; ++round) {
    const double ms = run(1);
    if (ms > 0.9 * before) break;
    before = ms;
  }
  steps_ = static_cast<int>(std::clamp(std::ceil(sample_ms / std::max(run(1), 1e-4)), 1.0, 2000.0));
}

/// Values as of a model in training: neither zeros nor what overflows in many steps.
void Contestant::fill() {
  const Program scheduled = step_.program();
  for (const ir::Node& node : scheduled.graph()->nodes) {
    if (node.op == ir::Op::scalar) scalars_.emplace_back(node.name, node.name == "t" ? 10 : 1e-3);
    if (node.op != ir::Op::input && node.op != ir::Op::state) continue;
    const std::size_t count = step_.count(node.name);
    const std::size_t size = size_of(node.dtype), repeated = std::min<std::size_t>(count, 97 * 64);
    std::vector<std::byte> data(count * size);
    for (std::size_t i = 0; i < repeated; ++i)
      store_element(node.dtype, data.data(), i, 0.25 + 0.5 * static_cast<double>(i % 97) / 97);
    for (std::size_t done = repeated; done < count; done += repeated) {
      const std::size_t elements = std::min(repeated, count - done);
      std::memcpy(data.data() + done * size, data.data(), elements * size);
    }
    step_.write(node.name, node.dtype, data.data(), count);
  }
}

double Contestant::run(int steps) {
  Comm& comm = *world_.comm();
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step_.run(scalars_);
  step_.synchronize();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return largest(comm, took.count() / steps);
}

double Contestant::sample() {
  return run(steps_);
}

Comparison compare(Contestant& champion, Contestant& challenger, int pairs, double hopeless) {
  std::vector<double> ratios, own;
  Comparison result;
  for (int pair = 0; pair < pairs && !result.stopped; ++pair) {
    // Who comes first finds the caches as the other left them; they take turns.
    double champion_ms = 0, challenger_ms = 0;
    if (pair % 2 == 0) champion_ms = champion.sample();
    challenger_ms = challenger.sample();
    if (pair % 2 == 1) champion_ms = champion.sample();
    ratios.push_back(challenger_ms / champion_ms);
    own.push_back(challenger_ms);
    result.stopped = pair == 1 && *std::min_element(ratios.begin(), ratios.end()) > hopeless;
  }
  result.ratio = median(ratios);
  result.ms = median(own);
  return result;
}

}  // namespace coconet::jit
