// Timing executables.
#include "jit/tune/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "ir/access.h"
#include "ir/graph.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"

namespace coconet::jit {
namespace {

constexpr double sample_ms = 2;  // or one step

/// The ratio above which all pairs up to `pair` must be for the challenger to be given up:
/// `hopeless` for one, less for two, and from three on it is enough that it never won.
double least_hopeless(int pair, double hopeless) {
  return pair == 0 ? hopeless : pair == 1 ? 1 + (hopeless - 1) / 3 : 1;
}

/// Values as of a model in training: neither zeros nor what overflows in many steps.
void fill_tensor(DType dtype, std::byte* data, std::size_t count) {
  const std::size_t size = size_of(dtype), repeated = std::min<std::size_t>(count, 97 * 64);
  for (std::size_t i = 0; i < repeated; ++i)
    store_element(dtype, data, i, 0.25 + 0.5 * static_cast<double>(i % 97) / 97);
  for (std::size_t done = repeated; done < count; done += repeated)
    std::memcpy(data + done * size, data, std::min(repeated, count - done) * size);
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Contestant::Contestant(const World& world, const Program& program, const Schedule& schedule,
                       const Sizes& sizes, const ParameterLists& lists,
                       const CompileChoices& choices, SharedTensors* shared)
    : world_(world), step_(compile_scheduled(program, schedule, world, sizes, lists, choices)) {
  fill(shared);
  // The first runs bring in pages and caches, some of them only the second or third.
  constexpr int most_rounds = 12;
  double ms = run(1);
  for (int round = 0; round < most_rounds; ++round) {
    const double before = std::exchange(ms, run(steps_));
    if (ms > 0.9 * before && ms * steps_ > 0.5 * sample_ms) break;
    const double wanted = std::ceil(sample_ms / std::max(ms, 1e-4));
    steps_ = static_cast<int>(std::clamp(wanted, 1.0, std::min(4.0 * steps_, 2000.0)));
  }
}

const Buffer& SharedTensors::get(const World& world, const std::string& name, DType dtype,
                                 std::size_t count) {
  Buffer& buffer = buffers_[{name, count}];
  if (Access::memory(buffer)) return buffer;
  buffer = world.allocate(dtype, count);
  fill_tensor(dtype, static_cast<std::byte*>(buffer.data()), count);
  return buffer;
}

void Contestant::fill(SharedTensors* shared) {
  const Program scheduled = step_.program();
  std::vector<const ir::Node*> tensors;
  std::string counts;
  for (const ir::Node& node : ir::graph_of(scheduled)->nodes()) {
    if (node.op == ir::Op::scalar) scalars_.emplace_back(node.name, node.name == "t" ? 10 : 1e-3);
    if (node.op != ir::Op::input && node.op != ir::Op::state) continue;
    tensors.push_back(&node);
    counts +=
        std::to_string(step_.count(node.name)) + (node.attributes.scattered ? " scattered " : " ");
  }
  // Memory of the world has one size on all ranks, and slices may not.
  bool is_even = shared != nullptr && counts.find("scattered") == std::string::npos;
  for (const std::string& other : comm_of(world_).all_gather(counts))
    is_even = is_even && other == counts;
  for (const ir::Node* node : tensors) {
    const std::size_t count = step_.count(node->name);
    if (is_even && count > 0) {
      step_.bind(node->name, shared->get(world_, node->name, node->dtype, count));
      continue;
    }
    std::vector<std::byte> data(count * size_of(node->dtype));
    fill_tensor(node->dtype, data.data(), count);
    step_.write(node->name, node->dtype, data.data(), count);
  }
}

double Contestant::run(int steps) {
  Comm& comm = comm_of(world_);
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step_.run(scalars_);
  step_.synchronize();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return greatest_of_all(comm, took.count() / steps);
}

double Contestant::sample() {
  // Short ones find the caches as they leave them.
  if (steps_ > 1) (void)run(1);
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
    result.stopped = hopeless > 0 && pair + 1 < pairs &&
                     *std::ranges::min_element(ratios) > least_hopeless(pair, hopeless);
  }
  result.ratio = median(ratios);
  result.ms = median(own);
  return result;
}

}  // namespace coconet::jit
