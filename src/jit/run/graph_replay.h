// Runs as graphs: recorded once, replayed with new argument blocks.
#pragma once

#include "jit/run/launch_group.h"

namespace coconet::jit {

class GraphReplay {
 public:
  GraphReplay(const Platform& platform, LaunchGroup& group, std::size_t steps)
      : platform_(platform), group_(group), steps_(steps) {}

  /// Whether run `run`, which goes into `queue`, is to be a graph.
  [[nodiscard]] bool wants(std::uint64_t run, const Queue& queue) const;
  /// Whether a run was recorded with the tensors where they are.
  [[nodiscard]] bool is_recorded() const { return graph_ && version_ == group_.tensors_version(); }
  /// A recording begins, whose steps `begins` tells; `keep` or `refuse` ends it.
  void begin_recording();
  /// Step `step` is put into `queue` next.
  void begins(const Queue& queue, std::size_t step) {
    if (recording_) launches_[step] = queue.launches();
  }
  void keep(std::unique_ptr<Graph> graph);
  /// In a handler of `why`: no run can be made a graph. Throws it on where COCONET_GRAPH is on.
  void refuse(const Error& why);

  /// Puts the recorded run into `queue`, with the argument blocks as they are now.
  void launch(Queue& queue);

 private:
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
