// Runs as graphs: recorded once, replayed with new argument blocks.
#pragma once

#include "jit/run/launch_group.h"

namespace coconet::jit {

class GraphReplay {
 public:
  /// Puts all steps of a run into a queue, and calls `begins` before each.
  using Put = std::function<void(Queue& queue, Fork& fork)>;

  GraphReplay(const Platform& platform, LaunchGroup& group, std::size_t steps)
      : platform_(platform), group_(group), steps_(steps) {}

  /// Whether run `run`, which goes into `queue`, is to be a graph.
  [[nodiscard]] bool wants(std::uint64_t run, const Queue& queue) const;
  /// Launches a run, recorded by `put` where that was not done for these tensors. False where it
  /// cannot be made a graph and need not. `widest` is how many steps run at once.
  [[nodiscard]] bool launch(Queue& queue, std::size_t widest, const Put& put);

  /// Step `step` is put into `queue` next.
  void begins(const Queue& queue, std::size_t step) {
    if (recording_) launches_[step] = queue.launches();
  }

 private:
  [[nodiscard]] bool record(std::size_t widest, const Put& put);
  void refresh_words();

  const Platform& platform_;
  LaunchGroup& group_;
  std::size_t steps_;
  std::unique_ptr<Graph> graph_;
  std::uint64_t version_ = 0;                      ///< of the tensors whose places it holds
  std::vector<std::size_t> launches_;              ///< by step: which launch of the graph
  std::vector<std::vector<std::uint64_t>> words_;  ///< by step: what it holds now
  bool recording_ = false;
  bool refused_ = false;  ///< it could not be made
};

}  // namespace coconet::jit
