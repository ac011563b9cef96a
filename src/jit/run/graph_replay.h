// Runs as graphs: recorded once, replayed with new argument blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "jit/run/launch_group.h"
#include "jit/run/step.h"

namespace coconet::jit {

class GraphReplay final : public StepObserver {
 public:
  /// Puts all steps of a run into a queue, telling the observer.
  using Put = std::function<void(Queue& queue, Fork& fork, StepObserver* observer)>;

  GraphReplay(const Platform& platform, LaunchGroup& group, std::size_t steps)
      : platform_(platform), group_(group), steps_(steps) {}

  /// Whether run `run`, which goes into `queue`, is to be a graph.
  [[nodiscard]] bool wants(std::uint64_t run, const Queue& queue) const;
  /// Launches a run, recorded by `put` where that was not done for these tensors. False where it
  /// cannot be made a graph and need not. `widest` is how many steps run at once.
  [[nodiscard]] bool launch(Queue& queue, std::size_t widest, const Put& put);

  void forks(Queue&) override {}
  void begins(Queue& queue, std::size_t step, bool beside) override;
  void ended(Queue&, std::size_t, bool) override {}
  void joined(Queue&) override {}

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
  bool refused_ = false;                           ///< it could not be made
};

}  // namespace coconet::jit
