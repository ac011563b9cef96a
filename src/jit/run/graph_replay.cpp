// Recording and replaying.
#include "jit/run/graph_replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/config/log.h"

namespace coconet::jit {

bool GraphReplay::wants(std::uint64_t run, const Queue& queue) const {
  // The first step is launched as it is: libraries set themselves up then.
  if (platform_.traits().immediate || run == 0 || config().graph == "off" || queue.being_recorded())
    return false;
  return config().graph == "on" || (steps_ > 1 && !refused_);
}

bool GraphReplay::launch(Queue& queue, std::size_t widest, const Put& put) {
  if (graph_ && version_ == group_.tensors_version()) {
    refresh_words();
  } else if (!record(widest, put)) {
    return false;
  }
  graph_->launch(queue);
  return true;
}

bool GraphReplay::record(std::size_t widest, const Put& put) {
  graph_.reset();
  launches_.assign(steps_, 0);
  words_.assign(steps_, {});
  std::unique_ptr<Fork> fork;  // whose queues are recorded until the recording ends
  recording_ = true;
  try {
    graph_ = platform_.record([&](Queue& queue) {
      fork = platform_.make_fork(queue, widest);
      put(queue, *fork);
    });
  } catch (const Error& error) {
    recording_ = false;
    if (config().graph == "on") throw;
    refused_ = true;
    log_warn(fmt::format("steps are launched one by one, as they cannot be made a graph: {}",
                         error.what()));
    return false;
  }
  recording_ = false;
  version_ = group_.tensors_version();
  const std::vector<Step>& steps = group_.members().front()->steps;
  for (std::size_t step = 0; step < steps_; ++step) {
    if (!std::holds_alternative<KernelLaunch>(steps[step].work)) continue;
    const std::span<const std::uint64_t> words = group_.words_of(step);
    words_[step].assign(words.begin(), words.end());
  }
  return true;
}

void GraphReplay::refresh_words() {
  for (std::size_t step = 0; step < steps_; ++step) {
    if (words_[step].empty()) continue;  // no kernel of the plan
    const std::span<const std::uint64_t> words = group_.words_of(step);
    if (std::ranges::equal(words, words_[step])) continue;
    graph_->set_launch(launches_[step], words);
    words_[step].assign(words.begin(), words.end());
  }
}

}  // namespace coconet::jit
