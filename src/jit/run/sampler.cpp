// Recording and reading events.
#include "jit/run/sampler.h"

#include <algorithm>

namespace coconet::jit {

bool is_sampled(std::uint64_t run) {
  return (run >= 1 && run <= 8) || run % 64 == 63;
}

void Times::add(std::chrono::nanoseconds time) {
  if (recorded_.size() < capacity) {
    recorded_.push_back(time);
  } else {
    recorded_[count_ % capacity] = time;
  }
  ++count_;
}

double Times::quantile_ms(double share) const {
  if (recorded_.empty()) return 0;
  std::vector<std::chrono::nanoseconds> sorted = recorded_;
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(place, sorted.size() - 1));
  std::nth_element(sorted.begin(), at, sorted.end());
  return std::chrono::duration<double, std::milli>(*at).count();
}

Sampler::Sampler(const Platform& platform, std::size_t steps)
    : platform_(platform), steps_(steps), times_(steps + 1) {}

/// Runs from the first on that the host times. Later it times every eighth: its clock takes a tenth
/// of a step of few elements.
constexpr std::uint64_t timed_runs = 64;

bool Sampler::starts(std::uint64_t run) {
  constexpr std::size_t most_pending = 16;
  const bool is_traced = untraced_ > pending_.size();
  if (platform_.traits().immediate) {
    if (!is_traced && run >= timed_runs && run % 8 != 7) return false;
  } else if ((!is_traced && !is_sampled(run)) || pending_.size() >= most_pending) {
    return false;
  }
  if (current_.spans.empty() && !spare_.empty()) {
    current_ = std::move(spare_.back());
    spare_.pop_back();
  }
  current_.events.resize(3 * steps_ + 1);
  current_.spans.assign(steps_, {});
  current_.first = current_.last = nullptr;
  current_.joins = 0;
  current_.run = run;
  return true;
}

const Event* Sampler::mark(Queue& queue, std::size_t number) {
  std::unique_ptr<Event>& event = current_.events[number];
  if (!event) event = platform_.make_event();
  event->record(queue);
  return event.get();
}

void Sampler::forks(Queue& queue) {
  if (current_.last == nullptr) current_.first = current_.last = mark(queue, 0);
}

void Sampler::begins(Queue& queue, std::size_t step, bool beside) {
  if (beside) {
    current_.spans[step].begun = mark(queue, 2 * step + 1);
    current_.spans[step].beside = true;
    return;
  }
  if (current_.last == nullptr) forks(queue);
  current_.spans[step].begun = current_.last;
}

void Sampler::ended(Queue& queue, std::size_t step, bool beside) {
  current_.spans[step].ended = mark(queue, 2 * step + 2);
  if (!beside) current_.last = current_.spans[step].ended;
}

void Sampler::joined(Queue& queue) {
  current_.last = mark(queue, 2 * steps_ + 1 + current_.joins++);
}

void Sampler::finish_run() {
  if (steps_ == 0) return;
  pending_.push_back(std::move(current_));
  current_ = {};
}

void Sampler::harvest() {
  const auto whole = [](float ms) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(ms) * 1e6));
  };
  while (!pending_.empty() && pending_.front().last->reached()) {
    const Sample& sample = pending_.front();
    for (std::size_t i = 0; i < sample.spans.size(); ++i)
      times_[i].add(whole(sample.spans[i].ended->ms_since(*sample.spans[i].begun)));
    times_.back().add(whole(sample.last->ms_since(*sample.first)));
    keep(sample);
    // A GPU's events are made anew for each run, so that how many does not depend on its pace.
    if (platform_.traits().immediate) spare_.push_back(std::move(pending_.front()));
    pending_.erase(pending_.begin());
  }
}

void Sampler::start_trace(Queue& queue, std::size_t runs) {
  origin_ = platform_.make_event();
  origin_->record(queue);
  untraced_ = runs;
  traced_.clear();
}

void Sampler::keep(const Sample& sample) {
  if (untraced_ == 0) return;
  --untraced_;
  int lane = 0;
  for (std::size_t step = 0; step < sample.spans.size(); ++step) {
    const Sample::Span& span = sample.spans[step];
    const auto us = [&](const Event& event) {
      return 1000 * static_cast<double>(event.ms_since(*origin_));
    };
    traced_.push_back({sample.run, step, span.beside ? lane : 0, us(*span.begun), us(*span.ended)});
    lane = span.beside ? lane + 1 : 0;
  }
}

}  // namespace coconet::jit
