// Times of steps: events in their queues, read once they are reached.
#pragma once

#include "jit/platform/platform.h"

namespace coconet::jit {

/// The last times of something, for a median.
class Times {
 public:
  void add(std::chrono::nanoseconds time);
  [[nodiscard]] double median_ms() const { return quantile_ms(0.5); }
  /// The milliseconds that a part `share` of the times, from 0 to 1, takes at most; 0 of none.
  [[nodiscard]] double quantile_ms(double share) const;
  /// All that were added.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  static constexpr std::size_t capacity = 1024;
  std::vector<std::chrono::nanoseconds> recorded_;
  std::uint64_t count_ = 0;
};

/// Runs that are timed where that costs time: the second to the ninth, as the first is slower than
/// all others, then every 64th.
[[nodiscard]] bool is_sampled(std::uint64_t run);

class Sampler {
 public:
  Sampler(const Platform& platform, std::size_t steps);

  /// Begins to time run `run`, if it is one that is timed.
  [[nodiscard]] bool starts(std::uint64_t run);
  /// Before steps that run at once.
  void forks(Queue& queue);
  /// Before step `step`, which runs beside others or not, and behind it.
  void begins(Queue& queue, std::size_t step, bool beside);
  void ended(Queue& queue, std::size_t step, bool beside);
  /// Behind steps that ran at once.
  void joined(Queue& queue);
  /// The run that began is in its queue as a whole.
  void finish_run();
  /// Takes the times of runs that are over.
  void harvest();
  /// Keeps where the steps of the next `runs` runs are, all of which are timed.
  void start_trace(Queue& queue, std::size_t runs);
  /// A step of a run: microseconds since the trace began.
  struct Traced {
    std::uint64_t run = 0;
    std::size_t step = 0;
    int lane = 0;  ///< 0, or its place among steps that ran at once
    double begin_us = 0, end_us = 0;
  };
  [[nodiscard]] const std::vector<Traced>& trace() const { return traced_; }
  /// Median milliseconds of a step, or of whole runs.
  [[nodiscard]] double step_ms(std::size_t step) const { return times_[step].median_ms(); }
  [[nodiscard]] double run_ms() const { return times_.back().median_ms(); }
  /// The last of those times.
  [[nodiscard]] const Times& step_times(std::size_t step) const { return times_[step]; }
  [[nodiscard]] const Times& run_times() const { return times_.back(); }

 private:
  /// The events of one run. A step begins where the one before ended, unless they run at once.
  struct Sample {
    struct Span {
      const Event* begun = nullptr;
      const Event* ended = nullptr;
      bool beside = false;
    };
    std::uint64_t run = 0;
    std::vector<std::unique_ptr<Event>> events;
    std::vector<Span> spans;
    const Event* first = nullptr;
    const Event* last = nullptr;
    std::size_t joins = 0;
  };
  /// The event number `number` of the current run, recorded in `queue`. The first is before all
  /// steps, then each step has two, and then come those behind steps that ran at once.
  const Event* mark(Queue& queue, std::size_t number);
  void keep(const Sample& sample);

  const Platform& platform_;
  std::size_t steps_;
  Sample current_;
  std::vector<Sample> pending_;
  std::vector<Sample> spare_;
  std::vector<Times> times_;       ///< by step, then of the whole run
  std::unique_ptr<Event> origin_;  ///< of the trace; null before there is one
  std::size_t untraced_ = 0;       ///< runs that it still takes
  std::vector<Traced> traced_;
};

}  // namespace coconet::jit
