// Medians of interleaved batches on a GPU: slow spells and clocks that change hit every contestant
// alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace bench {

inline constexpr int samples = 15;

struct Contestant {
  std::function<void()> step;  ///< puts one step into `queue`
  /// Untimed, after each batch: until all that this rank has queued is done.
  std::function<void()> wait = [] {};
  double ms = 0;  ///< result, on rank 0: median time of a step
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Times what contestants put into one queue of this rank's GPU.
class Stopwatch {
 public:
  Stopwatch(coconet::jit::Comm& comm, const coconet::jit::Platform& backend)
      : comm_(comm),
        queue_(backend.make_queue()),
        begin_(backend.make_event()),
        end_(backend.make_event()) {}

  [[nodiscard]] coconet::jit::Queue& queue() { return *queue_; }

  /// Collective: milliseconds of one of `steps` in a row, by events before and after them in the
  /// queue. One that is not timed goes first, so that the GPU is busy when the first event is
  /// queued.
  double batch(const Contestant& contestant, int steps) {
    comm_.barrier();
    contestant.step();
    begin_->record(*queue_);
    for (int i = 0; i < steps; ++i) contestant.step();
    end_->record(*queue_);
    queue_->finish();
    contestant.wait();
    return static_cast<double>(end_->ms_since(*begin_)) / steps;
  }

  /// Collective: fills in `ms`. Each batch lasts about `batch_ms` on rank 0, whose times count.
  void measure(std::vector<Contestant*> contestants, double batch_ms) {
    std::vector<int> steps;
    for (const Contestant* contestant : contestants) {
      batch(*contestant, 4);
      const double warm_ms = batch(*contestant, 12);
      const double wanted = std::clamp(std::ceil(batch_ms / std::max(warm_ms, 1e-6)), 4.0, 1000.0);
      steps.push_back(std::stoi(comm_.broadcast(std::to_string(static_cast<int>(wanted)), 0)));
    }
    std::vector<std::vector<double>> times(contestants.size());
    for (int sample = 0; sample < samples; ++sample) {
      for (std::size_t c = 0; c < contestants.size(); ++c)
        times[c].push_back(batch(*contestants[c], steps[c]));
    }
    for (std::size_t c = 0; c < contestants.size(); ++c) contestants[c]->ms = median(times[c]);
  }

 private:
  coconet::jit::Comm& comm_;
  std::unique_ptr<coconet::jit::Queue> queue_;
  std::unique_ptr<coconet::jit::Event> begin_, end_;
};

}  // namespace bench
