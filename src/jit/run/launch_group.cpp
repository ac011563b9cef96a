// How the ranks of a launch wait for each other on the host.
#include "jit/run/launch_group.h"

#include <fmt/format.h>

#include "coconet/error.h"

namespace coconet::jit {

LaunchGroup::LaunchGroup(Bound& bound, const Sampler& sampler) : bound_(bound) {
  Comm& comm = bound.comm();
  const int ranks = bound.platform.traits().ranks_per_launch;
  auto shared = std::make_shared<Shared>();
  shared->members.resize(ranks);
  shared->queues.resize(ranks);
  shared->arrived.resize(ranks);
  if (ranks > 1) {
    shared = std::static_pointer_cast<Shared>(comm.share(shared));
    position_ = comm.rank();
  }
  shared_ = std::move(shared);
  together(comm, [&] {
    arrived_ = bound.platform.make_event();
    shared_->members[position_] = &bound;
    shared_->arrived[position_] = arrived_.get();
    if (!drives()) return;
    shared_->sampler = &sampler;
    if (ranks > 1) shared_->done = bound.platform.make_event();
  });
}

std::span<const std::uint64_t> LaunchGroup::words_of(std::size_t step) {
  if (alone()) return std::get<KernelLaunch>(bound_.steps[step].work).words();
  words_.clear();
  for (const Bound* member : members()) {
    const auto own = std::get<KernelLaunch>(member->steps[step].work).words();
    words_.insert(words_.end(), own.begin(), own.end());
  }
  return words_;
}

std::uint64_t LaunchGroup::tensors_version() const {
  std::uint64_t version = 0;
  for (const Bound* member : members()) version += member->tensors.version();
  return version;
}

void LaunchGroup::begin_run(Queue& queue) {
  std::string failure;
  try {
    shared_->queues[position_] = &queue;
    if (!drives()) arrived_->record(queue);
  } catch (const Error& error) {
    failure = error.what();
  }
  agree(failure);
}

void LaunchGroup::hold_behind_others(Queue& queue) const {
  for (std::size_t i = 0; i < shared_->members.size(); ++i) {
    if (shared_->queues[i] != &queue) shared_->arrived[i]->hold(queue);
  }
}

void LaunchGroup::end_run(Queue& queue, const std::string& failure) {
  agree(failure);
  if (!drives()) shared_->done->hold(queue);
}

void LaunchGroup::agree(const std::string& failure) {
  if (bound_.sync->meet(!failure.empty()) == StepSync::Meeting::agree) return;
  const std::vector<std::string> failures = bound_.comm().all_gather(failure);
  if (!failure.empty()) throw BackendError(failure);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) throw CommError(fmt::format("rank {}: {}", rank, failures[rank]));
  }
}

}  // namespace coconet::jit
