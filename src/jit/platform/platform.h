// Platforms: what compiles and runs kernels, holds tensors, orders work and multiplies matrices.
// The folders host and cuda implement the interfaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/collectives/collectives.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/cores.h"
#include "jit/config/open_file.h"
#include "jit/platform/compiler.h"
#include "jit/platform/matmul_shape.h"

namespace coconet::jit {

/// What is owned through a pointer and never copied.
class Interface {
 public:
  Interface() = default;
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;
  virtual ~Interface() = default;
};

/// Threads of a GPU's block where no knob says otherwise. Small blocks leave fewer registers of a
/// multiprocessor unused; not measured on GPUs yet.
inline constexpr int default_threads = 256;

/// The shape of a launch.
struct Grid {
  int blocks = 1;         ///< of every rank
  int threads = 1;        ///< of a block; 1 on the host is one lane
  int cores = 1;          ///< of the host, which share out blocks of one lane
  int ranks = 1;          ///< in this launch: their argument blocks follow each other
  bool resident = false;  ///< blocks wait for each other, so all of them must run at once
  bool together = false;  ///< none starts before there is room for all
};

/// A loaded kernel. Launches from several threads at once are fine.
class Kernel : public Interface {
 public:
  /// Most blocks of `threads` that can run at once, of all ranks of a launch together.
  [[nodiscard]] virtual int resident_blocks(int threads) const = 0;
  /// Most threads of a block.
  [[nodiscard]] virtual int most_threads() const = 0;
};

/// Memory of a platform, freed with the last handle, after the work that was queued before.
class Memory {
 public:
  Memory(std::byte* data, std::function<void()> free) : data_(data), free_(std::move(free)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { free_(); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::function<void()> free_;
};

/// Zeroed memory that library collectives are told of before their calls (Collectives::open).
struct Window {
  std::shared_ptr<Memory> memory;
  std::size_t bytes = 0;  ///< the same on all ranks

  [[nodiscard]] std::span<std::byte> span() const { return {memory->data(), bytes}; }
};

class Queue;

/// A point in the work of a queue.
class Event : public Interface {
 public:
  /// Moves it behind all work that is in `queue` now.
  virtual void record(Queue& queue) = 0;
  /// What is put into `queue` from here on begins after the event.
  virtual void hold(Queue& queue) const = 0;
  [[nodiscard]] virtual bool reached() const = 0;
  /// Milliseconds from `earlier` to this; both must be reached.
  [[nodiscard]] virtual float ms_since(const Event& earlier) const = 0;
};

/// Work that was recorded once, to be put into a queue as a whole.
class Graph : public Interface {
 public:
  /// Replaces the argument blocks of launch `index`, in the order of recording.
  virtual void set_launch(std::size_t index, std::span<const std::uint64_t> words) = 0;
  virtual void launch(Queue& queue) = 0;
};

/// Work on memory, done in order: at once on the host, elsewhere perhaps later.
class Queue : public Interface {
 public:
  /// Runs `kernel` on `words`: argument blocks of the same length, one for each rank of the grid.
  virtual void launch(const Kernel& kernel, const Grid& grid,
                      std::span<const std::uint64_t> words) = 0;
  /// Between any two places: this platform's memory or the host's.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// `rows` pieces of `bytes`; the strides are bytes, too.
  virtual void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                         std::size_t bytes, std::size_t rows) = 0;
  virtual void zero(void* at, std::size_t bytes) = 0;
  /// Launches put into it so far; where it is recorded, into the whole recording.
  [[nodiscard]] virtual std::size_t launches() const = 0;
  /// Whether all work is done. Throws BackendError when some of it failed.
  [[nodiscard]] virtual bool idle() const = 0;
  /// Waits until it is.
  virtual void finish() = 0;
  /// What the application or a library calls it: a CUstream; null on the host.
  [[nodiscard]] virtual void* handle() const = 0;
  /// Whether the application is recording what is put into it.
  [[nodiscard]] virtual bool being_recorded() const = 0;
  /// Whether it is the application's.
  [[nodiscard]] virtual bool is_applications() const = 0;
};

/// A recording of what is put into its queue, instead of doing it. It ends, without a graph, where
/// it is destroyed first.
class Recording : public Interface {
 public:
  [[nodiscard]] virtual Queue& queue() = 0;
  /// Ends it, once.
  [[nodiscard]] virtual std::unique_ptr<Graph> finish() = 0;
};

/// The order in which the executables of a process come to a processor with runs whose blocks wait
/// for other processors or for other kernels. Two such runs at once can keep each other out: each
/// has what the other needs to go on. As runs are collective, their order is the same on all ranks.
class LaunchOrder : public Interface {
 public:
  /// What this executable puts into `queue` from here on begins after what others put into other
  /// queues, of which none puts anything until the lock is gone.
  [[nodiscard]] virtual std::unique_lock<std::mutex> begin_run(Queue& queue) = 0;
  /// The whole run is in `queue`.
  virtual void end_run(Queue& queue) = 0;
  /// Work of this executable in `from` is now before all that comes into `to`.
  virtual void moved(const Queue& from, const Queue& to) = 0;
  /// All work in `queue` is done.
  virtual void finished(const Queue& queue) = 0;
};

/// Work that runs at once with other work.
class Fork : public Interface {
 public:
  /// Calls put(queue, i) for i from 0 to `count` - 1. The work that they put into their queues runs
  /// at once, after all that is in `queue` now and before what is put into it from here on.
  virtual void run(Queue& queue, std::size_t count,
                   const std::function<void(Queue&, std::size_t)>& put) = 0;
  /// Waits until all that is beside the queue is done.
  virtual void finish() = 0;
};

/// A matmul by the platform's library.
class LibraryMatmul : public Interface {
 public:
  /// Before the first rows of a run: the operands may have changed.
  virtual void begin_run() {}
  /// Puts rows [begin, end) of the products, at least one element, into `queue`.
  virtual void enqueue(Queue& queue, const MatmulTensors& tensors, std::int64_t begin,
                       std::int64_t end) = 0;
};

/// Steps that are to run at once.
struct Simultaneous {
  int steps = 0;
  int blocks = 0;           ///< of their kernels, of all ranks of a launch
  bool multiplies = false;  ///< one of them is a matmul
  bool forced = false;      ///< on the host they run at once without a core for each, too
};
/// What there is for them.
struct Room {
  bool enough = false;
  bool shared = false;  ///< they run at once, but whoever waits must give way to the others
  std::string problem;  ///< why there is not enough, for people; may be empty
};

/// Kernels by the names of their texts.
using NamedKernels = std::map<std::string, std::shared_ptr<const Kernel>, std::less<>>;

/// What planning for a platform must know of it.
struct Traits {
  std::string processor;     ///< what runs kernels, for messages: "the host", "NVIDIA H100, GPU 0"
  int ranks_per_launch = 1;  ///< whose kernels one launch runs; those of this process on a GPU
  bool immediate = false;    ///< queues do what is put into them before they return
  bool pages_on_demand = false;  ///< memory that may never be used can be allocated with the rest
  bool shares_for_collectives = false;  ///< these are quicker on memory that all ranks reach
  bool needs_multicast = false;  ///< kernels with the algorithm multimem need a multicast pointer
  bool has_windows = false;      ///< `allocate_window` may give memory
  /// Threads of every block, and blocks that run one after the other when it is 1; 0: kernels and
  /// knobs decide.
  int fixed_threads = 0;
  int processors = 1;  ///< that blocks can each have; not meant where `fixed_threads` is set
};

class Platform : public Interface {
 public:
  explicit Platform(Traits traits) : traits_(std::move(traits)) {}
  [[nodiscard]] const Traits& traits() const { return traits_; }
  /// Makes the binaries that `load` takes; found at the first call, for ranks that compile.
  [[nodiscard]] virtual const Compiler& compiler() const = 0;
  /// On the host from `file`, where that is open, holds just `binary` and cannot be changed by
  /// anybody else: there profilers and debuggers find its symbols. Throws BackendError when the
  /// binary cannot be loaded or lacks `entry`.
  [[nodiscard]] virtual std::shared_ptr<const Kernel> load(std::string_view binary,
                                                           const std::string& entry,
                                                           OpenFile file = {}) const = 0;
  /// Zeroed memory. Throws BackendError, which says what is free, when there is not enough.
  [[nodiscard]] virtual std::shared_ptr<Memory> allocate(std::size_t bytes) const = 0;
  /// Zeroed memory of the host that kernels can write to.
  [[nodiscard]] virtual std::shared_ptr<Memory> allocate_on_host(std::size_t bytes) const = 0;
  /// Collective: zeroed memory on every rank that kernels of the ranks of its node reach. Throws
  /// CommError naming ranks that cannot reach each other, BackendError when there is not enough.
  /// With `multicast` there is a multicast pointer, too, or the memory says why not.
  [[nodiscard]] virtual std::shared_ptr<PeerMemory> allocate_peer(Comm& comm, std::size_t bytes,
                                                                  bool multicast = false) const = 0;
  /// Collective: for `bytes` on this rank; empty on all ranks where a window is of no use.
  [[nodiscard]] virtual Window allocate_window(Comm& comm, std::size_t bytes) const {
    (void)comm;
    (void)bytes;
    return {};
  }
  /// Throws BackendError, which begins with `what`, unless kernels can use `data`.
  virtual void require_reachable(const void* data, const std::string& what) const = 0;
  /// A queue of its own, whose copies so many `cores` of the host share out, or one that puts its
  /// work into the application's `handle`.
  [[nodiscard]] virtual std::unique_ptr<Queue> make_queue(int cores = 1) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Queue> wrap_queue(void* handle) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() const = 0;
  /// For an executable whose runs need an order. Null where queues do their work at once.
  [[nodiscard]] virtual std::unique_ptr<LaunchOrder> make_launch_order() const = 0;
  /// For up to `count` pieces of work at once, one of them in `queue`; recorded where that is.
  [[nodiscard]] virtual std::unique_ptr<Fork> make_fork(const Queue& queue,
                                                        std::size_t count) const = 0;
  /// On this thread, until the recording ends. Null where queues do their work at once.
  [[nodiscard]] virtual std::unique_ptr<Recording> begin_recording() const = 0;

  /// The library's collectives among `ranks`, for those of them that one queue drives: the calling
  /// rank, or all of a launch. Collective over the world where a launch runs one rank; each passes
  /// the group that it is in. `step` names what needs them; `kernels` holds those of
  /// `kernel_texts`. Throws CommError when there is no library.
  [[nodiscard]] virtual std::shared_ptr<Collectives> make_collectives(
      Comm& comm, const std::vector<int>& ranks, const std::string& step,
      const NamedKernels& kernels) const = 0;
  /// Collective: see World::use_nccl.
  virtual void use_communicator(Comm& comm, void* communicator) const = 0;
  /// Throws BackendError when there is no library.
  [[nodiscard]] virtual std::unique_ptr<LibraryMatmul> make_matmul(MatmulShape shape) const = 0;
  /// Rows of the tiles, but perhaps the last, in which a step takes a product of that shape.
  [[nodiscard]] virtual std::int64_t rows_of_tile(std::int64_t rows,
                                                  std::int64_t columns) const = 0;
  /// Collective: processes of the world that share this rank's processor, this one included. What
  /// they run at once must fit on it.
  [[nodiscard]] virtual int processes_here(Comm& comm) const = 0;
  /// Collective: the cores that each rank has for its kernels and products, and whether there are
  /// fewer than these threads. Throws BackendError on every rank where the system does not give one
  /// of them as many threads.
  [[nodiscard]] virtual CoresOfRank cores_of(Comm& comm, const Config& config) const {
    (void)comm;
    (void)config;
    return {};
  }
  /// Collective: whether steps can run at once.
  [[nodiscard]] virtual Room room_for(Comm& comm, const Simultaneous& steps) const = 0;
  /// Collective: throws BackendError on every rank unless a line of 128 bytes that one of `group`
  /// writes is seen whole by the others. `kernel` is what needs that: it has the protocol ll128.
  virtual void require_whole_lines(Comm& comm, std::span<const int> group,
                                   std::string_view kernel) const = 0;

 private:
  Traits traits_;
};

/// What `config` says, for this rank; without one, the world's. Throws BackendError.
[[nodiscard]] const Platform& platform_of(Comm& comm, const Config& config);
[[nodiscard]] inline const Platform& platform_of(Comm& comm) {
  return platform_of(comm, comm.config());
}

/// What is known of a platform also where no machine has it.
struct Target {
  bool immediate;  ///< Traits::immediate
  /// For kernels of launches that run `ranks` ranks. Throws CompileError when there is none.
  std::unique_ptr<Compiler> (*make_compiler)(std::string_view arch, const Config& config,
                                             int ranks);
};
/// That of kernels for `arch`: "host", or a GPU's architecture, "sm_90".
[[nodiscard]] const Target& target_of(std::string_view arch);

/// Kernels are shared objects. Its compiler throws CompileError when there is none.
[[nodiscard]] const Platform& host_platform();

/// The host's kernels `entries`, all of one binary, which is loaded once. Throws BackendError.
[[nodiscard]] std::vector<std::shared_ptr<const Kernel>> load_host_kernels(
    std::string_view binary, std::span<const std::string> entries);

/// The platform of this rank's GPU; ranks of one process that share one are run by one launch. Its
/// compiler throws CompileError when there is no NVRTC or it does not know the GPU.
[[nodiscard]] const Platform& cuda_platform_of(Comm& comm);

}  // namespace coconet::jit
