// Ranks of one process that share a GPU: each prepares its argument blocks, and one of them, the
// driver, puts every step of the plan into its queue as one launch for all. Where a launch runs one
// rank, that is a group by itself.
#pragma once

#include "jit/run/bound.h"
#include "jit/run/sampler.h"

namespace coconet::jit {

class LaunchGroup {
 public:
  /// Collective. `bound` and `sampler` outlive it.
  LaunchGroup(Bound& bound, const Sampler& sampler);

  [[nodiscard]] bool alone() const { return shared_->members.size() == 1; }
  [[nodiscard]] bool drives() const { return position_ == 0; }
  /// What each rank has bound, the driver's first.
  [[nodiscard]] std::span<Bound* const> members() const { return shared_->members; }
  /// What `rank`, a member, has bound.
  [[nodiscard]] Bound& member(int rank) const { return *shared_->members[alone() ? 0 : rank]; }
  /// The driver's, which times runs.
  [[nodiscard]] const Sampler& sampler() const { return *shared_->sampler; }

  /// The argument blocks of all ranks for a kernel, valid until the next call.
  [[nodiscard]] std::span<const std::uint64_t> words_of(std::size_t step);
  /// Grows with that of any rank's tensors.
  [[nodiscard]] std::uint64_t tensors_version() const;

  /// Collective among the group, of several ranks: when it returns, all ranks' blocks are ready.
  void begin_run(Queue& queue);
  /// For the driver: what comes into `queue` from here on begins behind the other ranks' queues.
  void hold_behind_others(Queue& queue) const;
  /// For the driver: the other ranks' queues go on behind what is in `queue` now.
  void mark_done(Queue& queue) { shared_->done->record(queue); }
  /// Collective: the driver's run is in its queue. Throws on all ranks where it has a `failure`.
  void end_run(Queue& queue, const std::string& failure);
  /// Whether the driver's queue is past the newest run.
  [[nodiscard]] bool done() const { return !shared_->done || shared_->done->reached(); }

 private:
  struct Shared {
    std::vector<Bound*> members;
    std::vector<Queue*> queues;
    std::vector<const Event*> arrived;
    std::unique_ptr<Event> done;  ///< behind the newest run
    const Sampler* sampler = nullptr;
  };
  /// Collective: throws on all ranks of the group when one has a `failure`.
  void agree(const std::string& failure);

  Bound& bound_;
  std::size_t position_ = 0;
  std::unique_ptr<Event> arrived_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::uint64_t> words_;
};

}  // namespace coconet::jit
