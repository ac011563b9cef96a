// Timing collectives that go one way beside the same that go another.
#include "jit/tune/measure_ways.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <vector>

#include "jit/comm/collectives/direct_collectives.h"
#include "jit/tune/timing.h"

namespace coconet::jit {
namespace {

constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
constexpr double gain = 0.97;  // what another way than the usual one must bring

/// An all_reduce of f32 over all ranks, in memory that the others reach, as part of a step: what
/// comes behind it reads the result and writes the next operand.
class Subject {
 public:
  Subject(Comm& comm, const Platform& platform, std::size_t bytes)
      : comm_(comm),
        count_(bytes / sizeof(float)),
        queue_(platform.make_queue()),
        in_(comm.allocate(bytes)),
        out_(comm.allocate(bytes)),
        operands_{in_->base(comm.rank()), out_->base(comm.rank())} {
    std::vector<int> ranks(static_cast<std::size_t>(comm.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    collectives_ = comm.collectives(ranks);
    (void)time(1);
    (void)time(1);
    const double wanted_ms = 1;
    calls_ = static_cast<int>(std::clamp(wanted_ms / std::max(time(1), 1e-4), 1.0, 2000.0));
  }

  /// Milliseconds of a call with `ways`.
  double sample(const CollectiveWays& ways) {
    comm_.set_ways(ways);
    return time(calls_);
  }

 private:
  double time(int calls) {
    const CollectiveCall call{.op = ir::Op::all_reduce,
                              .dtype = DType::f32,
                              .count = count_,
                              .operands = {&operands_, 1}};
    comm_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      collectives_->run(*queue_, call);
      const auto* const result = reinterpret_cast<const float*>(out_->base(comm_.rank()));
      auto* const operand = reinterpret_cast<float*>(in_->base(comm_.rank()));
      for (std::size_t at = 0; at < count_; ++at) operand[at] = 0.5F * result[at];
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    return greatest_of_all(comm_, took.count() / calls);
  }

  Comm& comm_;
  std::size_t count_;
  std::unique_ptr<Queue> queue_;
  std::shared_ptr<PeerMemory> in_, out_;
  std::shared_ptr<Collectives> collectives_;
  CollectiveCall::Operands operands_;
  int calls_ = 1;
};

/// The median of the time with `one` as the bound `field` over that with `other`, sample by sample.
double ratio(Subject& subject, std::size_t CollectiveWays::*field, std::size_t one,
             std::size_t other) {
  CollectiveWays ways;
  const auto sample = [&](std::size_t bytes) {
    ways.*field = bytes;
    return subject.sample(ways);
  };
  std::vector<double> ratios;
  for (int pair = 0; pair < 7; ++pair) {
    const double first = sample(one);
    ratios.push_back(first / sample(other));
  }
  return median(std::move(ratios));
}

}  // namespace

std::optional<CollectiveWays> measure_ways(Comm& comm, const Platform& platform,
                                           const std::function<bool()>& interrupted) {
  CollectiveWays best;
  const auto ends = [&] {
    if (!interrupted || !comm.any_failed(interrupted(), 0)) return false;
    comm.set_ways({});
    return true;
  };
  best.copied_bytes = 0;
  for (std::size_t bytes = 512; bytes <= 1 << 15; bytes *= 2) {
    if (ends()) return std::nullopt;
    Subject subject(comm, platform, bytes);
    if (ratio(subject, &CollectiveWays::copied_bytes, never, 0) > 1) break;
    best.copied_bytes = bytes;
  }
  // From the largest down, as long as it gains.
  best.streamed_bytes = never;
  const auto ranks = static_cast<std::size_t>(comm.size());
  for (std::size_t share = 1 << 23; share >= 1 << 12; share /= 2) {
    if (ends()) return std::nullopt;
    Subject subject(comm, platform, share * ranks);
    if (ratio(subject, &CollectiveWays::streamed_bytes, 0, never) > gain) break;
    best.streamed_bytes = share;
  }
  comm.set_ways(best);
  return best;
}

}  // namespace coconet::jit
