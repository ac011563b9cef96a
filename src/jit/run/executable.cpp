// Running a compiled step.
#include "coconet/executable.h"

#include <algorithm>
#include <exception>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/barrier/barrier.h"
#include "jit/platform/host/at_once.h"
#include "jit/run/executable_state.h"

namespace coconet {

using clock = std::chrono::steady_clock;

double jit::Times::median_ms() const {
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
  if (device) {
    if (sync.meet(!failure.empty())) throw_together(failure);
    return;
  }
  // What all ranks enter first tells them of a failure, where it is a collective of the whole world.
  if (!steps.empty() && program.mesh().axes().size() == 1) {
    jit::Step& first = steps.front();
    auto* kernel = std::get_if<jit::KernelLaunch>(&first.work);
    auto* collective = std::get_if<jit::LibraryCollective>(&first.work);
    if (collective != nullptr || (kernel != nullptr && kernel->begins_with_barrier())) {
      if (failure.empty()) return;
      if (collective != nullptr) {
        groups_[collective->axis()]->refuse();
      } else {
        kernel->refuse(sync);
      }
      throw_together(failure);
    }
  }
  if (sync.meet(!failure.empty())) throw_together(failure);
}

void Executable::State::run(std::span<const ScalarValue> scalars) {
  if (!broken_.empty())
    throw CommError("this executable cannot run any more, because in an earlier step " + broken_);
  if (device) check_device_fault(false);
  std::string failure;
  try {
    tensors.complete();
    numbers.evaluate(scalars);
    if (device) device->require_ready();
  } catch (const BackendError& error) {
    failure = error.what();
  }
  enter(failure);
  tables.refresh(tensors, queue());
  if (device) {
    device->run(numbers);
  } else {
    run_on_host();
  }
  ++runs_;
}

void Executable::State::run_on_host() {
  const auto begin = clock::now();
  auto last = begin;
  auto overlap = plan.plan().overlaps.begin();
  for (std::size_t index = 0; index < steps.size();) {
    const bool at_once =
        at_once_ && overlap != plan.plan().overlaps.end() && overlap->first == index;
    const std::size_t count = at_once ? (overlap++)->count : 1;
    run_steps(index, count);
    const auto now = clock::now();
    if (count == 1) steps[index].times.add(now - last);
    last = now;
    index += count;
  }
  times_.add(last - begin);
}

void Executable::State::finish() {
  if (!device) return;
  try {
    device->finish();
  } catch (const CommError& error) {
    broken_ = error.what();
    throw;
  }
  check_device_fault(true);
}

void Executable::State::run_steps(std::size_t first, std::size_t count) {
  for (std::size_t index = first; index < first + count; ++index) {
    if (auto* kernel = std::get_if<jit::KernelLaunch>(&steps[index].work))
      kernel->prepare(tensors, numbers, sync);
  }
  if (count == 1) {
    run_step(first);
  } else {
    std::vector<std::exception_ptr> failures(count);
    const auto run_one = [&](int number) {
      const auto place = static_cast<std::size_t>(number);
      const auto begin = clock::now();
      try {
        run_step(first + place);
        steps[first + place].times.add(clock::now() - begin);
      } catch (...) {
        failures[place] = std::current_exception();
      }
    };
    const int threads = static_cast<int>(count);
    if (jit::run_at_once(threads, run_one) < threads) {
      for (int number = 0; number < threads; ++number) run_one(number);
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure == nullptr) continue;
      broken_ = "a step that others wait for failed";
      std::rethrow_exception(failure);
    }
  }
  for (std::size_t index = first; index < first + count; ++index) {
    const auto* kernel = std::get_if<jit::KernelLaunch>(&steps[index].work);
    if (kernel != nullptr && kernel->collective() && sync.faulty()) check_fault();
  }
}

void Executable::State::run_step(std::size_t index) {
  jit::Step& step = steps[index];
  if (auto* kernel = std::get_if<jit::KernelLaunch>(&step.work)) {
    host_queue_->launch(kernel->kernel(), kernel->grid(), kernel->words());
  } else if (auto* matmul = std::get_if<jit::Matmul>(&step.work)) {
    const auto departing = tiles.find(matmul->out());
    matmul->run(tensors, departing == tiles.end() ? nullptr : &departing->second);
  } else {
    run_collective(std::get<jit::LibraryCollective>(step.work), index);
  }
}

void Executable::State::run_collective(jit::LibraryCollective& collective, std::size_t index) {
  auto& group = groups_[collective.axis()];
  try {
    const jit::LibraryCollective::Member member{&collective, &tensors};
    jit::LibraryCollective::run(*group, *host_queue_, {&member, 1});
  } catch (const jit::Refused&) {
    throw_together("");
  } catch (const jit::PeerFailure&) {
    throw;
  } catch (const CommError& error) {
    broken_ = std::string(error.what()) + "; this was library collective '" + collective.name() +
              "' (step " + std::to_string(index + 1) + " of " + std::to_string(steps.size()) + ")";
    throw CommError(broken_);
  }
}

void Executable::State::check_fault() {
  if (sync.fault().code == jit::abi::RANK_FAILED) {
    sync.clear_fault();
    throw_together("");
  }
  break_down(static_cast<std::size_t>(sync.fault().step));
}

void Executable::State::check_device_fault(bool ended) {
  if (!sync.faulty()) return;
  // The report is whole when its kernel has ended, which it does now that it has given up.
  if (!ended) device->finish();
  break_down(static_cast<std::size_t>(sync.fault().step));
}

namespace {

/// Where in a kernel with `barriers` a wait of `phase` is: "at its first barrier".
std::string place_of(std::uint64_t phase, int barriers) {
  if (phase == jit::abi::WAIT_FOR_ROOM) return "for room in its mailbox";
  if (phase == jit::abi::WAIT_FOR_MESSAGE) return "for a chunk from it";
  if (phase == jit::abi::WAIT_FOR_TILE) return "for tiles that it makes";
  if (phase == 0) return "at its first barrier";
  if (static_cast<int>(phase) == barriers - 1) return "at its last barrier";
  return "at the barrier after its pass " + std::to_string(phase);
}

}  // namespace

void Executable::State::break_down(std::size_t index) {
  const jit::abi::Fault fault = sync.fault();
  sync.clear_fault();
  const jit::Step& step = steps[index];
  const auto& kernel = std::get<jit::KernelLaunch>(step.work);
  const bool for_step = fault.phase == jit::abi::WAIT_FOR_TILE;
  const int peer = sync.group(kernel.axis())[static_cast<std::size_t>(fault.peer)];
  broken_ =
      "rank " + std::to_string(world.rank()) + " waited " + jit::seconds(config().timeout) +
      " s for " +
      (for_step ? "its own step '" + steps[index - 1].name + "'" : "rank " + std::to_string(peer)) +
      " in kernel '" + step.name + "' (step " + std::to_string(index + 1) + " of " +
      std::to_string(steps.size()) + "), " + place_of(fault.phase, kernel.barriers()) + ", block " +
      std::to_string(fault.block) + ": expected flag " + std::to_string(fault.expected) +
      ", found " + std::to_string(fault.found) + "; " +
      (for_step ? "that step is slow, stuck or failed" : "that rank is late, stuck or gone") +
      " (COCONET_TIMEOUT_S sets the limit)";
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
  state_->tensors.bind_read_only(name, dtype, data, count);
}
void Executable::bind(std::string_view name, const Buffer& buffer) {
  state_->tensors.bind(name, buffer);
}
std::vector<Executable::Piece> Executable::own_scattered(std::string_view name, DType dtype) {
  const std::vector<void*> places = state_->tensors.own_scattered(name, dtype);
  const auto& pieces = state_->tensors[state_->tensors.find(name)].buffers;
  std::vector<Piece> own;
  for (std::size_t i = 0; i < places.size(); ++i) own.push_back({places[i], pieces[i].count});
  return own;
}
void Executable::bind_scattered(std::string_view name, DType dtype, std::span<const Piece> pieces) {
  state_->tensors.bind_scattered(name, dtype, pieces);
}
void Executable::bind_scattered(std::string_view name, std::span<const Buffer> buffers) {
  state_->tensors.bind_scattered(name, buffers);
}
void Executable::write(std::string_view name, DType dtype, const void* from, std::size_t count) {
  state_->tensors.write(state_->queue(), name, dtype, from, count);
}
void Executable::read(std::string_view name, DType dtype, void* to, std::size_t count) {
  state_->finish();
  state_->tensors.read(state_->queue(), name, dtype, to, count);
  state_->finish();
}
void Executable::use_stream(void* stream) {
  if (state_->device) state_->device->use_stream(stream);
}
void Executable::synchronize() {
  state_->finish();
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
  return sched::print(state_->plan.plan());
}

std::vector<std::pair<std::string, std::string>> Executable::sources() const {
  std::vector<std::pair<std::string, std::string>> sources;
  for (const jit::Step& step : state_->steps) {
    if (const auto* kernel = std::get_if<jit::KernelLaunch>(&step.work)) {
      sources.emplace_back(kernel->text().name, kernel->text().source);
    }
  }
  return sources;
}

}  // namespace coconet
