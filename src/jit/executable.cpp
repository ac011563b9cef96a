// Running a compiled step.
#include "coconet/executable.h"

#include <algorithm>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/meeting.h"
#include "jit/executable_state.h"

namespace coconet {

using clock = std::chrono::steady_clock;

double Times::median_ms() const {
  if (recorded_.empty()) return 0;
  std::vector<std::chrono::nanoseconds> sorted = recorded_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::chrono::duration<double, std::milli>(*middle).count();
}

void Executable::State::enter(const std::string& failure) {
  if (world.size() == 1) {
    if (!failure.empty()) throw BackendError(failure);
    return;
  }
  // What all ranks enter first tells them of a failure, where it is a collective of the whole world.
  if (!steps.empty() && program.mesh().axes().size() == 1) {
    Step& first = steps.front();
    auto* kernel = std::get_if<jit::KernelLaunch>(&first.work);
    auto* collective = std::get_if<jit::LibraryCollective>(&first.work);
    if (collective != nullptr || kernel->collective()) {
      if (failure.empty()) return;
      if (collective != nullptr) {
        groups_[collective->axis()]->refuse();
      } else {
        gate.fail_kernel(kernel->axis(), kernel->blocks());
      }
      throw_together(failure);
    }
  }
  if (gate.meet(!failure.empty())) throw_together(failure);
}

void Executable::State::run(std::span<const ScalarValue> scalars) {
  if (!broken_.empty())
    throw CommError("this executable cannot run any more, because in an earlier step " + broken_);
  std::string failure;
  try {
    tensors.require_bound();
    numbers.evaluate(scalars);
  } catch (const BackendError& error) {
    failure = error.what();
  }
  enter(failure);
  const auto begin = clock::now();
  auto last = begin;
  for (std::size_t index = 0; index < steps.size(); ++index) {
    run_step(steps[index], index);
    const auto now = clock::now();
    steps[index].times.add(now - last);
    last = now;
  }
  times_.add(last - begin);
  ++runs_;
}

void Executable::State::run_step(Step& step, std::size_t index) {
  if (auto* kernel = std::get_if<jit::KernelLaunch>(&step.work)) {
    kernel->run(tensors, numbers, gate);
    if (kernel->collective() && gate.fault().code != 0) check_fault(step, index);
    return;
  }
  auto& collective = std::get<jit::LibraryCollective>(step.work);
  auto& group = groups_[collective.axis()];
  try {
    collective.run(*group, tensors);
  } catch (const jit::Refused&) {
    throw_together("");
  } catch (const jit::PeerFailure&) {
    throw;
  } catch (const CommError& error) {
    broken_ = std::string(error.what()) + "; this was library collective '" + step.name +
              "' (step " + std::to_string(index + 1) + " of " + std::to_string(steps.size()) + ")";
    throw CommError(broken_);
  }
}

void Executable::State::check_fault(const Step& step, std::size_t index) {
  const jit::Fault fault = gate.fault();
  gate.clear_fault();
  if (fault.code == 2) throw_together("");
  const auto& kernel = std::get<jit::KernelLaunch>(step.work);
  const int peer = gate.group(kernel.axis())[static_cast<std::size_t>(fault.peer)];
  broken_ = "rank " + std::to_string(world.rank()) + " waited " + jit::seconds(config().timeout) +
            " s for rank " + std::to_string(peer) + " in kernel '" + step.name + "' (step " +
            std::to_string(index + 1) + " of " + std::to_string(steps.size()) + "), at its " +
            (fault.phase == 0 ? "first" : "last") + " barrier, block " +
            std::to_string(fault.block) + ": expected flag " + std::to_string(fault.expected) +
            ", found " + std::to_string(fault.found) +
            "; that rank is late, stuck or gone (COCONET_TIMEOUT_S sets the limit)";
  throw CommError(broken_);
}

void Executable::State::throw_together(const std::string& failure) {
  const std::vector<std::string> failures = world.comm()->all_gather(failure);
  if (!failure.empty()) throw BackendError(failure);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) {
      throw CommError("rank " + std::to_string(rank) +
                      " could not run the step, no rank did: " + failures[rank]);
    }
  }
  throw InternalError("a rank reported a failure without saying which");
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

std::size_t Executable::count(std::string_view name) const {
  return state_->tensors[state_->tensors.find(name)].count;
}
std::size_t Executable::allocated_bytes(std::string_view name) const {
  return state_->tensors[state_->tensors.find(name)].bytes;
}
void* Executable::own(std::string_view name, DType dtype) {
  return state_->tensors.own(name, dtype);
}
void Executable::bind(std::string_view name, DType dtype, void* data, std::size_t count) {
  state_->tensors.bind(name, dtype, data, count);
}
void Executable::bind_read_only(std::string_view name, DType dtype, const void* data,
                                std::size_t count) {
  const auto role = state_->tensors[state_->tensors.find(name)].buffer->role;
  if (role != sched::PlanBuffer::Role::input) {
    throw BackendError("'" + std::string(name) +
                       "' is written by the step, but bound to constant memory; bind memory that "
                       "may be written");
  }
  state_->tensors.bind(name, dtype, const_cast<void*>(data), count);
}
void Executable::bind(std::string_view name, const Buffer& buffer) {
  state_->tensors.bind(name, buffer);
}
void Executable::run(std::span<const ScalarValue> scalars) {
  state_->run(scalars);
}
Report Executable::report() {
  return state_->report();
}
Program Executable::program() const {
  return state_->program;
}
std::string Executable::plan() const {
  return sched::print(state_->plan);
}

std::vector<std::pair<std::string, std::string>> Executable::sources() const {
  std::vector<std::pair<std::string, std::string>> sources;
  for (const State::Step& step : state_->steps) {
    if (const auto* kernel = std::get_if<jit::KernelLaunch>(&step.work)) {
      sources.emplace_back(kernel->text().name, kernel->text().source);
    }
  }
  return sources;
}

}  // namespace coconet
