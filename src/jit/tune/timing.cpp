// Timing executables.
#include "jit/tune/timing.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/access.h"
#include "ir/graph.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {
namespace {

constexpr double sample_ms = 2;  // or one step

double ms_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

/// What the calling thread occupied from its making on.
class Stopwatch {
 public:
  [[nodiscard]] Occupancy occupancy() const {
    return {ms_of(CLOCK_MONOTONIC) - wall_ms_, ms_of(CLOCK_THREAD_CPUTIME_ID) - cpu_ms_};
  }

 private:
  double wall_ms_ = ms_of(CLOCK_MONOTONIC), cpu_ms_ = ms_of(CLOCK_THREAD_CPUTIME_ID);
};

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
  const Stopwatch stopwatch;
  for (int i = 0; i < steps; ++i) step_.run(scalars_);
  step_.synchronize();
  const Occupancy took = stopwatch.occupancy();
  // Threads that wait for a GPU sleep.
  if (platform_of(comm).traits().immediate) occupancy_.add(took);
  return greatest_of_all(comm, took.wall_ms / steps);
}

double Contestant::sample() {
  constexpr int most_stretches = 4;
  // Short ones find the caches as they leave them.
  if (steps_ > 1) (void)run(1);
  const int stretches = std::min(steps_, most_stretches);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < stretches; ++i) least = std::min(least, run(steps_ / stretches));
  return least;
}

double Occupancy::preempted() const {
  return wall_ms > 0 ? std::clamp(1 - cpu_ms / wall_ms, 0.0, 1.0) : 0;
}

bool is_machine_quiet(Comm& comm) {
  constexpr double enough_ms = 30;  // several turns of whoever else wants the processor
  comm.barrier();
  const Stopwatch stopwatch;
  Occupancy took;
  do took = stopwatch.occupancy();
  while (took.wall_ms < enough_ms);
  return greatest_of_all(comm, took.preempted()) < is_busy;
}

namespace {

/// Pairs of samples of two.
class Pairs {
 public:
  Pairs(Contestant& champion, Contestant& challenger)
      : champion_(champion), challenger_(challenger) {}

  void add() {
    // Who comes first finds the caches as the other left them; they take turns.
    const bool champion_first = own_.size() % 2 == 0;
    double champion_ms = 0;
    if (champion_first) champion_ms = champion_.sample();
    own_.push_back(challenger_.sample());
    if (!champion_first) champion_ms = champion_.sample();
    ratios_.add(own_.back() / champion_ms);
  }
  [[nodiscard]] const PairedRatios& ratios() const { return ratios_; }
  [[nodiscard]] Comparison said(PairedRatios::Verdict verdict) const {
    return {ratios_.median(), median(own_), verdict};
  }

 private:
  Contestant& champion_;
  Contestant& challenger_;
  PairedRatios ratios_;
  std::vector<double> own_;
};

}  // namespace

Comparison compare(Contestant& champion, Contestant& challenger, const Pairing& pairing) {
  using Verdict = PairedRatios::Verdict;
  Pairs pairs(champion, challenger);
  Verdict verdict = Verdict::open;
  while (verdict == Verdict::open && pairs.ratios().count() < pairing.most) {
    pairs.add();
    verdict = pairs.ratios().verdict(pairing.quicker, pairing.hopeless);
  }
  if (verdict == Verdict::open) verdict = pairs.ratios().last_verdict(pairing.quicker);
  return pairs.said(verdict);
}

Comparison compare_all(Contestant& champion, Contestant& challenger, int pairs) {
  Pairs all(champion, challenger);
  for (int pair = 0; pair < pairs; ++pair) all.add();
  return all.said(PairedRatios::Verdict::open);
}

}  // namespace coconet::jit
