// How ranks learn that one cannot run a step, and what a kernel's report of a failed wait means.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/run/agreement.h"
#include "jit/run/checks.h"
#include "jit/run/runner.h"

namespace coconet::jit {
namespace {

/// Where in a kernel with `barriers` a wait of `phase` is: "at its first barrier".
std::string place_of(std::uint64_t phase, int barriers) {
  if (phase == abi::WAIT_FOR_ROOM) return "to send a chunk";
  if (phase == abi::WAIT_FOR_MESSAGE) return "to receive a chunk";
  if (phase == 0) return "at its first barrier";
  if (static_cast<int>(phase) == barriers - 1) return "at its last barrier";
  return fmt::format("at the barrier after its pass {}", phase);
}

/// Whether step `index` meets no other rank and writes temporaries of its own alone.
bool leaves_no_trace(const sched::Plan& plan, std::size_t index) {
  const auto is_own = [&](sched::BufferId id) {
    const sched::PlanBuffer& buffer = plan.buffers[id];
    return buffer.role == sched::PlanBuffer::Role::temporary && buffer.same_as < 0 &&
           !buffer.peer_access && !buffer.in_collective;
  };
  const sched::PlanStep& step = plan.steps[index];
  if (const auto* matmul = std::get_if<sched::MatmulStep>(&step)) return is_own(matmul->out);
  const auto* kernel = std::get_if<sched::KernelStep>(&step);
  return kernel != nullptr && !kernel->is_collective &&
         std::ranges::all_of(kernel->stores(),
                             [&](const auto& store) { return is_own(store.buffer); });
}

}  // namespace

void Runner::enter(const std::string& failure) {
  if (bound_.comm().size() == 1) {
    if (!failure.empty()) throw BackendError(failure);
    return;
  }
  if (refusal_step_ != nullptr) {
    if (failure.empty()) return;
    refuse(*refusal_step_);
    throw_together(failure);
  }
  const auto come = std::chrono::steady_clock::now();
  const StepSync::Meeting meeting = bound_.sync->meet(!failure.empty(), bound_.numbers.given());
  if (meeting == StepSync::Meeting::one_failed) throw_together(failure);
  if (meeting == StepSync::Meeting::differ) throw_difference();
  waits_.add(std::chrono::steady_clock::now() - come);
}

void Runner::check() {
  const std::string text = bound_.numbers.text();
  const Given given[] = {{"other scalars", text, text}};
  require_agreement(bound_.comm(), "all ranks must run a step with the same scalars", given);
  finish();
  check_step(bound_, [&](sched::BufferId id, std::span<std::byte> to) {
    const sched::PlanBuffer& buffer = bound_.plan.buffer(id);
    const Executable::Piece whole{to.data(), to.size() / size_of(buffer.dtype)};
    in_order([&] { bound_.tensors.read(*queue_, buffer.name, buffer.dtype, {&whole, 1}); });
    finish();
  });
}

Step* Runner::find_refusal_step() const {
  if (!immediate_ || bound_.plan.mesh().axes().size() != 1) return nullptr;
  for (std::size_t index = 0; index < bound_.steps.size(); ++index) {
    Step& step = bound_.steps[index];
    const auto* kernel = std::get_if<KernelLaunch>(&step.work);
    if (std::holds_alternative<LibraryCollective>(step.work) ||
        (kernel != nullptr && kernel->begins_with_barrier()))
      return &step;
    // A step that runs beside others may wait for one that this rank does not run.
    if (!bound_.at_once.empty() || !leaves_no_trace(bound_.plan.plan(), index)) return nullptr;
  }
  return nullptr;
}

void Runner::refuse(Step& step) {
  if (auto* kernel = std::get_if<KernelLaunch>(&step.work)) {
    kernel->refuse(*bound_.sync);
  } else {
    library_calls_[&step - bound_.steps.data()].front().collectives->refuse();
  }
}

void Runner::check_fault(bool ended) {
  if (!bound_.sync->faulty()) return;
  // The report is whole when its kernel has ended, which it does now that it has given up.
  if (!ended) wait();
  const abi::Fault fault = bound_.sync->take_fault();
  if (fault.code == abi::RANK_REFUSED) throw_together("");
  if (fault.code == abi::RANK_DISAGREES) throw_difference();
  break_down(fault);
}

void Runner::break_down(const abi::Fault& fault) {
  const std::vector<Step>& steps = bound_.steps;
  const auto& kernel = std::get<KernelLaunch>(steps[fault.step].work);
  const std::string limit = fmt::format(" within {} s, the limit that COCONET_TIMEOUT_S sets",
                                        seconds(bound_.config->timeout));
  const int rank = bound_.comm().rank();
  const bool for_step = fault.phase == abi::WAIT_FOR_TILE;
  std::string place = fmt::format(
      "in kernel '{}' (step {} of {}), block {}, {} (expected flag {}, found {})",
      steps[fault.step].name, fault.step + 1, steps.size(), fault.block,
      for_step ? fmt::format("for tiles of its own step '{}'", steps[fault.step - 1].name)
               : place_of(fault.phase, kernel.barriers()),
      fault.expected, fault.found);
  const int peer = for_step ? rank : bound_.plan.group(kernel.axis())[fault.peer];
  // A kernel does not say whether it ran out of time or a notice ended its wait.
  const FailedWait wait{std::move(place),
                        {peer},
                        (for_step ? "which were not made" : "which did not come") + limit,
                        for_step || !bound_.comm().membership()->is_over()};
  try {
    bound_.comm().membership()->give_up(wait);
  } catch (const Error& error) {
    break_off(error.what());
    throw;
  }
}

void Runner::break_off(std::string why) {
  broken_ = std::move(why);
  for (const sched::PlanStep& step : bound_.plan.plan().steps) {
    if (const auto* const kernel = std::get_if<sched::KernelStep>(&step)) {
      for (const auto& store : kernel->stores()) bound_.tensors.tear(store.buffer, broken_);
      for (const auto& store : kernel->scalar_stores) bound_.tensors.tear(store.buffer, broken_);
    } else if (const auto* const library = std::get_if<sched::LibraryStep>(&step)) {
      bound_.tensors.tear(library->out, broken_);
    } else {
      bound_.tensors.tear(std::get<sched::MatmulStep>(step).out, broken_);
    }
  }
}

void Runner::throw_difference() {
  const std::string text = bound_.numbers.text();
  // Behind it, as NaNs look alike.
  const Given given[] = {
      {"other scalars", fmt::format("{} {}", text, bound_.numbers.given()), text}};
  require_agreement(bound_.comm(), "all ranks must run a step with the same scalars", given);
  throw InternalError("ranks found different scalars, which are the same");
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
