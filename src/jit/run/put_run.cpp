// Putting the steps of a run into queues.
#include <fmt/format.h>

#include "coconet/error.h"
#include "jit/run/runner.h"

namespace coconet::jit {

void Runner::put_run_of_group() {
  group_.begin_run(*queue_);
  std::string failure;
  try {
    if (group_.drives()) drive_group();
  } catch (const Error& error) {
    failure = error.what();
  }
  group_.end_run(*queue_, failure);
}

void Runner::drive_group() {
  try {
    group_.hold_behind_others(*queue_);
    put_run();
    group_.mark_done(*queue_);
  } catch (const Error&) {
    queue_->finish();  // the other ranks may take their tensors away once they hear of it
    throw;
  }
}

void Runner::put_run() {
  sampler_.harvest();
  try {
    std::unique_lock<std::mutex> turn;
    if (order_) turn = order_->begin_run(*queue_);
    if (!queue_->being_recorded() && sampler_.starts(runs_)) {
      enqueue(*queue_, *fork_, &sampler_);
      sampler_.finish_run();
    } else if (replay_.wants(runs_, *queue_) && (replay_.is_recorded() || record())) {
      replay_.launch(*queue_);
    } else {
      enqueue(*queue_, *fork_, nullptr);
    }
    if (order_) order_->end_run(*queue_);
  } catch (const Error&) {
    fork_->finish();  // nothing that the failed run left there may run beside the next one
    throw;
  }
}

bool Runner::record() {
  std::unique_ptr<Fork> fork;  // whose queues are recorded until the recording ends
  try {
    const std::unique_ptr<Recording> recording = bound_.platform.begin_recording();
    fork = bound_.platform.make_fork(recording->queue(), widest());
    replay_.begin_recording();
    enqueue(recording->queue(), *fork, nullptr);
    replay_.keep(recording->finish());
    return true;
  } catch (const Error& error) {
    replay_.refuse(error);
    return false;
  }
}

void Runner::enqueue(Queue& queue, Fork& fork, Sampler* sampler) {
  auto overlap = bound_.at_once.begin();
  for (std::size_t first = 0; first < bound_.steps.size();) {
    const bool at_once = overlap != bound_.at_once.end() && overlap->first == first;
    const std::size_t count = at_once ? overlap->count : 1;
    // Where a step may be refused as it is put in, those behind it must not count as begun.
    if (immediate_) prepare(first, count);
    if (at_once) {
      enqueue_beside(queue, fork, *overlap++, sampler);
    } else {
      enqueue_step(queue, first, false, sampler);
    }
    if (immediate_) check_fault(true);
    first += count;
  }
}

void Runner::enqueue_beside(Queue& queue, Fork& fork, const sched::Overlap& overlap,
                            Sampler* sampler) {
  if (sampler != nullptr) sampler->forks(queue);
  try {
    // What tells of a product's tiles has a queue, too, the first.
    const std::size_t before = tile_signal_ != nullptr ? 1 : 0;
    Queue* signals = nullptr;
    fork.run(queue, before + overlap.count, [&](Queue& own, std::size_t place) {
      if (place < before) {
        signals = &own;
      } else {
        enqueue_step(own, overlap.first + place - before, true, sampler, signals);
      }
    });
  } catch (...) {
    if (immediate_ && broken_.empty()) break_off("a step that others wait for failed");
    throw;
  }
  if (sampler != nullptr) sampler->joined(queue);
}

void Runner::enqueue_step(Queue& queue, std::size_t index, bool beside, Sampler* sampler,
                          Queue* signals) {
  if (sampler != nullptr) sampler->begins(queue, index, beside);
  replay_.begins(queue, index);
  const Step& step = bound_.steps[index];
  if (const auto* kernel = std::get_if<KernelLaunch>(&step.work)) {
    Grid grid = kernel->grid();
    // Launches that start as a whole may wait for each other. Beside each other there is room.
    grid.together = grid.resident && !beside;
    queue.launch(kernel->kernel(), grid, group_.words_of(index));
  } else if (std::holds_alternative<Matmul>(step.work)) {
    enqueue_matmul(queue, index, signals);
  } else {
    enqueue_collective(queue, index);
  }
  if (sampler != nullptr) sampler->ended(queue, index, beside);
}

void Runner::enqueue_matmul(Queue& queue, std::size_t index, Queue* signals) {
  std::vector<Matmul::Member> members;
  for (Bound* const bound : group_.members()) {
    auto& matmul = std::get<Matmul>(bound->steps[index].work);
    const auto counts = bound->tiles.find(matmul.out());
    members.push_back(
        {&matmul, &bound->tensors, counts == bound->tiles.end() ? nullptr : &counts->second});
  }
  Matmul::run(queue, members, {tile_signal_, signals, tile_made_.get()});
}

void Runner::enqueue_collective(Queue& queue, std::size_t index) {
  try {
    for (const LibraryCall& call : library_calls_[index])
      LibraryCollective::run(*call.collectives, queue, call.members, bound_.numbers.given());
  } catch (const Refused&) {
    throw_together("");
  } catch (const Differs&) {
    throw_difference();
  } catch (const PeerFailure& failure) {
    if (immediate_) break_off(failure.what());
    throw;
  } catch (const CommError& error) {
    if (!immediate_) throw;
    break_off(fmt::format("{}; this was library collective '{}' (step {} of {})", error.what(),
                          bound_.steps[index].name, index + 1, bound_.steps.size()));
    throw CommError(broken_);
  }
}

}  // namespace coconet::jit
