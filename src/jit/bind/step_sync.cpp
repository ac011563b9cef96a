// Flags in shared memory; what kernels raise is laid out as jit/abi says.
#include "jit/bind/step_sync.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "jit/codegen/tile_sync.h"
#include "jit/comm/barrier/wait_until.h"

namespace coconet::jit {
namespace {

static_assert(Barrier::given_bits == abi::GIVEN_BITS);
constexpr std::size_t flag_bytes = abi::FLAG_STRIDE * sizeof(abi::u64);
/// Some 400 us of pauses, longer than a step of small tensors takes. Who gives its core away to
/// other processes gets it back after theirs have run for milliseconds.
constexpr std::uint64_t looks_before_yield = 20000;

/// Whether the step is a kernel that raises flags or looks at them.
bool waits_in_kernels(const sched::PlanStep& step) {
  const auto* const kernel = std::get_if<sched::KernelStep>(&step);
  return kernel != nullptr && (kernel->is_collective || synchronizes_tiles(*kernel));
}

}  // namespace

std::string seconds(std::chrono::milliseconds time) {
  const auto whole = time.count() / 1000;
  const auto rest = time.count() % 1000;
  return rest == 0 ? fmt::format("{}", whole) : fmt::format("{}.{:03}", whole, rest);
}

StepSync::StepSync(Comm& comm, const Platform& platform, const RankPlan& plan,
                   std::chrono::milliseconds timeout)
    : comm_(comm),
      mesh_(plan.mesh()),
      timeout_(timeout),
      fault_memory_(platform.allocate_on_host(sizeof(abi::Fault))),
      fault_(reinterpret_cast<abi::Fault*>(fault_memory_->data())),
      notices_(comm.membership()->notices()) {
  std::size_t bytes = 0;
  for (const Mesh::Axis& axis : plan.mesh().axes()) {
    axes_.push_back({.flags = bytes});
    bytes += abi::barrier_words(axis.size) * sizeof(abi::u64);
  }
  if (&comm.node() == &comm) host_flags_ = comm.allocate(comm.size() * flag_bytes);
  // GPUs that reach no other's memory run plans without such kernels.
  if (std::ranges::any_of(plan.plan().steps, waits_in_kernels)) {
    if (comm.size() == 1) {
      own_flags_ = platform.allocate(bytes);
    } else {
      kernel_flags_ = platform.allocate_peer(comm, bytes);
    }
  }
  if (!platform.traits().immediate) {
    notices_memory_ = platform.allocate_on_host(comm.membership()->size() * sizeof(abi::u64));
    auto* const copy = reinterpret_cast<abi::u64*>(notices_memory_->data());
    mirrored_ = comm.membership()->mirror_notices(copy);
    notices_ = copy;
  }
  spin_limit_ = comm.ranks_per_core() > 1 ? 0 : looks_before_yield;
}

abi::u64* StepSync::kernel_flags(int axis, int rank) const {
  if (!own_flags_ && !kernel_flags_) return nullptr;
  std::byte* const base = own_flags_ ? own_flags_->data() : kernel_flags_->base(rank);
  return base == nullptr ? nullptr : reinterpret_cast<abi::u64*>(base + axes_[axis].flags);
}

std::atomic_ref<abi::u64> StepSync::host_flag(int rank, int of) const {
  std::byte* const base = host_flags_->base(rank) + of * flag_bytes;
  return std::atomic_ref(*reinterpret_cast<abi::u64*>(base));
}

StepSync::Meeting StepSync::meet(bool failed, std::uint64_t given) {
  if (!host_flags_) {
    try {
      return comm_.any_failed(failed, given) ? Meeting::one_failed : Meeting::agree;
    } catch (const Differs&) {
      return Meeting::differ;
    }
  }
  using clock = std::chrono::steady_clock;
  const abi::u64 target = abi::barrier_value(++host_epoch_, 0, false);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    host_flag(rank, comm_.rank())
        .store(abi::barrier_value(host_epoch_, given, failed), std::memory_order_release);
  }
  bool any_failed = false;
  bool differs = false;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const std::atomic_ref<abi::u64> flag = host_flag(comm_.rank(), rank);
    clock::time_point started;
    std::uint64_t found = 0;
    std::uint64_t looks = 0;
    bool is_late = false;
    const bool came = wait_until(
        [&] {
          found = flag.load(std::memory_order_acquire);
          return found >= target;
        },
        [&] {
          if (++looks % 64 != 0) return false;
          if (started == clock::time_point{}) started = clock::now();
          is_late = clock::now() - started > timeout_;
          return is_late || comm_.membership()->is_over() ||
                 comm_.membership()->has_left(comm_.number_of(rank));
        },
        [&] {
          if (looks >= spin_limit_) sched_yield();
        });
    if (!came) {
      comm_.membership()->give_up({"at the beginning of the step",
                                   {comm_.number_of(rank)},
                                   "which did not come within " + seconds(timeout_) +
                                       " s, the limit that COCONET_TIMEOUT_S sets",
                                   is_late});
    }
    if (abi::epoch_of(found) > host_epoch_) continue;  // it saw that all agree
    any_failed = any_failed || (found & 1) != 0;
    differs = differs || found != abi::barrier_value(host_epoch_, given, false);
  }
  return any_failed ? Meeting::one_failed : differs ? Meeting::differ : Meeting::agree;
}

void StepSync::fail_kernel(int axis, int blocks, int barriers, int first) {
  const abi::u64 value = abi::barrier_value(next_epoch(axis, barriers) + first, 0, true);
  const auto raise = [&](int rank, abi::index_t block) {
    const abi::index_t flag = abi::barrier_flag(block, position(axis), mesh_.axes()[axis].size);
    std::atomic_ref(kernel_flags(axis, rank)[flag]).store(value, std::memory_order_release);
  };
  for (const int rank : group(axis)) {
    if (rank == comm_.rank()) continue;
    if (first > 0) raise(rank, abi::WHOLE_GRID);
    for (int block = 0; first == 0 && block < blocks; ++block) raise(rank, block);
  }
}

abi::SyncHead StepSync::argument(int axis, std::size_t step) const {
  return {.own_flags = kernel_flags(axis, comm_.rank()),
          .fault = fault_,
          .epoch = 0,
          .rank = static_cast<abi::u64>(position(axis)),
          .timeout = static_cast<abi::u64>(std::chrono::nanoseconds(timeout_).count()),
          .spin_limit = spin_limit_,
          .step = step,
          .given = 0,
          .waited = nullptr,
          .notices = notices_ + group(axis).front(),
          .notice_stride = static_cast<abi::u64>(stride(axis))};
}

int StepSync::stride(int axis) const {
  const std::vector<int> ranks = group(axis);
  return ranks.size() > 1 ? ranks[1] - ranks[0] : 0;
}

std::vector<abi::u64*> StepSync::flags_of_ranks(int axis) const {
  std::vector<abi::u64*> flags;
  for (const int rank : group(axis)) flags.push_back(kernel_flags(axis, rank));
  return flags;
}

}  // namespace coconet::jit
