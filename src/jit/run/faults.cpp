// How ranks hear that one cannot run a step, and what a kernel's report of a vain wait means.
#include <fmt/format.h>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/run/runner.h"

namespace coconet::jit {
namespace {

/// Where in a kernel with `barriers` a wait of `phase` is: "at its first barrier".
std::string place_of(std::uint64_t phase, int barriers) {
  if (phase == abi::WAIT_FOR_ROOM) return "for room in its mailbox";
  if (phase == abi::WAIT_FOR_MESSAGE) return "for a chunk from it";
  if (phase == abi::WAIT_FOR_TILE) return "for tiles that it makes";
  if (phase == 0) return "at its first barrier";
  if (static_cast<int>(phase) == barriers - 1) return "at its last barrier";
  return fmt::format("at the barrier after its pass {}", phase);
}

}  // namespace

void Runner::enter(const std::string& failure) {
  if (bound_.comm().size() == 1) {
    if (!failure.empty()) throw BackendError(failure);
    return;
  }
  if (first_step_tells()) {
    if (failure.empty()) return;
    refuse_first_step();
    throw_together(failure);
  }
  const auto come = std::chrono::steady_clock::now();
  if (bound_.sync->meet(!failure.empty())) throw_together(failure);
  waits_.add(std::chrono::steady_clock::now() - come);
}

bool Runner::first_step_tells() const {
  // Where all ranks enter a collective of the whole world first, it tells them of a failure.
  if (!immediate_ || bound_.steps.empty() || bound_.plan.mesh().axes().size() != 1) return false;
  const auto& work = bound_.steps.front().work;
  const auto* kernel = std::get_if<KernelLaunch>(&work);
  return std::holds_alternative<LibraryCollective>(work) ||
         (kernel != nullptr && kernel->begins_with_barrier());
}

void Runner::refuse_first_step() {
  if (auto* kernel = std::get_if<KernelLaunch>(&bound_.steps.front().work)) {
    kernel->refuse(*bound_.sync);
  } else {
    library_calls_.front().front().collectives->refuse();
  }
}

void Runner::check_fault(bool ended) {
  if (!bound_.sync->faulty()) return;
  // The report is whole when its kernel has ended, which it does now that it has given up.
  if (!ended) wait();
  const abi::Fault fault = bound_.sync->take_fault();
  if (fault.code == abi::RANK_FAILED) throw_together("");
  break_down(fault);
}

void Runner::break_down(const abi::Fault& fault) {
  const std::vector<Step>& steps = bound_.steps;
  const auto& kernel = std::get<KernelLaunch>(steps[fault.step].work);
  const bool for_step = fault.phase == abi::WAIT_FOR_TILE;
  broken_ = fmt::format(
      "rank {} waited {} s for {} in kernel '{}' (step {} of {}), {}, block {}: expected flag {}, "
      "found {}; {} (COCONET_TIMEOUT_S sets the limit)",
      bound_.comm().rank(), seconds(bound_.config->timeout),
      for_step ? fmt::format("its own step '{}'", steps[fault.step - 1].name)
               : fmt::format("rank {}", bound_.plan.group(kernel.axis())[fault.peer]),
      steps[fault.step].name, fault.step + 1, steps.size(),
      place_of(fault.phase, kernel.barriers()), fault.block, fault.expected, fault.found,
      for_step ? "that step is slow, stuck or failed" : "that rank is late, stuck or gone");
  throw CommError(broken_);
}

void Runner::throw_together(const std::string& failure) {
  const std::vector<std::string> failures = bound_.comm().all_gather(failure);
  if (!failure.empty()) throw BackendError(failure);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) {
      throw CommError(
          fmt::format("rank {} could not run the step, no rank did: {}", rank, failures[rank]));
    }
  }
  throw InternalError("a rank reported a failure without saying which");
}

}  // namespace coconet::jit
