// Backends: how kernel text becomes something that runs, where tensors are, and in what order work is done on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/platform/compiler.h"
#include "jit/platform/device.h"

namespace coconet::jit {

/// The shape of a launch.
struct Grid {
  int blocks = 1;         ///< of every rank
  int threads = 1;        ///< of a block; 1 on the host is one lane
  int ranks = 1;          ///< in this launch: their argument blocks follow each other
  bool resident = false;  ///< blocks wait for each other, so all of them must run at once
};

/// A loaded kernel. Launches from several threads at once are fine.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Most blocks of `threads` that can run at once, of all ranks of a launch together.
  [[nodiscard]] virtual int resident_blocks(int threads) const = 0;
  /// Most threads of a block.
  [[nodiscard]] virtual int most_threads() const = 0;
};

/// Memory of a platform, freed with the last handle, after the work that was queued before.
class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual std::byte* data() const = 0;
};

class Queue;

/// A point in the work of a queue.
class Event {
 public:
  virtual ~Event() = default;
  /// Moves it behind all work that is in `queue` now.
  virtual void record(Queue& queue) = 0;
  /// What is put into `queue` from here on begins after the event.
  virtual void hold(Queue& queue) const = 0;
  [[nodiscard]] virtual bool reached() const = 0;
  /// Milliseconds from `earlier` to this; both must be reached.
  [[nodiscard]] virtual float ms_since(const Event& earlier) const = 0;
};

/// Work that was recorded once, to be put into a queue as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Replaces the argument blocks of launch `index`, in the order of recording.
  virtual void set_launch(std::size_t index, std::span<const std::uint64_t> words) = 0;
  virtual void launch(Queue& queue) = 0;
};

/// Work on memory, done in order. What is put into it may be done later, except on the host, which does it at once.
class Queue {
 public:
  virtual ~Queue() = default;
  /// Runs `kernel` on the argument blocks `words`, one of the same length for each rank of the grid.
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
  /// A queue for work that runs beside this one's, and is recorded where this one's is. Events order the two.
  [[nodiscard]] virtual std::unique_ptr<Queue> make_beside() const = 0;
};

class Platform {
 public:
  virtual ~Platform() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The GPU; null on the host.
  [[nodiscard]] virtual const Device* device() const = 0;
  /// Ranks whose kernels one launch runs; those of this process on the same GPU.
  [[nodiscard]] virtual int ranks_per_launch() const = 0;
  /// Makes the binaries that `load` takes; found at the first call, as only the rank that compiles needs it.
  [[nodiscard]] virtual const Compiler& compiler() const = 0;
  /// Throws BackendError when the binary cannot be loaded or lacks `entry`.
  [[nodiscard]] virtual std::shared_ptr<const Kernel> load(std::string_view binary,
                                                           const std::string& entry) const = 0;
  /// Zeroed memory. Throws BackendError with what was asked and what is free when there is not enough.
  [[nodiscard]] virtual std::shared_ptr<Memory> allocate(std::size_t bytes) const = 0;
  /// Zeroed memory of the host that kernels can write to.
  [[nodiscard]] virtual std::shared_ptr<Memory> allocate_on_host(std::size_t bytes) const = 0;
  /// Throws BackendError, which begins with `what`, unless kernels can use `data`.
  virtual void require_reachable(const void* data, const std::string& what) const = 0;
  /// A queue of its own, or one that puts its work into the application's `handle`.
  [[nodiscard]] virtual std::unique_ptr<Queue> make_queue() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Queue> wrap_queue(void* handle) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() const = 0;
  /// What `body` puts into the queue that it is given. Null when this platform has no such thing.
  [[nodiscard]] virtual std::unique_ptr<Graph> record(
      const std::function<void(Queue&)>& body) const = 0;
};

/// The host platform of this process: kernels are shared objects. Its compiler throws CompileError when there is none.
[[nodiscard]] const Platform& host_platform();

/// The host's kernels `entries`, all of one binary, which is loaded once. Throws BackendError as `Platform::load` does.
[[nodiscard]] std::vector<std::shared_ptr<const Kernel>> load_host_kernels(
    std::string_view binary, std::span<const std::string> entries);

/// The platform of `device` for launches of `ranks` ranks, made at the first call. Its compiler throws CompileError when
/// there is no NVRTC or it does not know the device.
[[nodiscard]] const Platform& cuda_platform(const Device& device, int ranks);

}  // namespace coconet::jit
