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

void GraphReplay::begin_recording() {
  graph_.reset();
  launches_.assign(steps_, 0);
  words_.assign(steps_, {});
  recording_ = true;
}

void GraphReplay::keep(std::unique_ptr<Graph> graph) {
  recording_ = false;
  graph_ = std::move(graph);
  version_ = group_.tensors_version();
  const std::vector<Step>& steps = group_.members().front()->steps;
  for (std::size_t step = 0; step < steps_; ++step) {
    if (!std::holds_alternative<KernelLaunch>(steps[step].work)) continue;
    const std::span<const std::uint64_t> words = group_.words_of(step);
    words_[step].assign(words.begin(), words.end());
  }
}

void GraphReplay::refuse(const Error& why) {
  recording_ = false;
  if (config().graph == "on") throw;
  refused_ = true;
  log_warn(
      fmt::format("steps are launched one by one, as they cannot be made a graph: {}", why.what()));
}

void GraphReplay::launch(Queue& queue) {
  for (std::size_t step = 0; step < steps_; ++step) {
    if (words_[step].empty()) continue;  // no kernel of the plan
    const std::span<const std::uint64_t> words = group_.words_of(step);
    if (std::ranges::equal(words, words_[step])) continue;
    graph_->set_launch(launches_[step], words);
    words_[step].assign(words.begin(), words.end());
  }
  graph_->launch(queue);
}

}  // namespace coconet::jit
