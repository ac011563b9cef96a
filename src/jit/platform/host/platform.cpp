// The host platform: kernels are shared objects, loaded from memory.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/worlds/core_pool.h"
#include "jit/comm/worlds/cores.h"
#include "jit/platform/host/compiler.h"
#include "jit/platform/host/matmul.h"
#include "jit/platform/host/shared_object.h"

namespace coconet::jit {

namespace {

/// Calls `call(0)` to `call(count - 1)`, which wait for each other, on a thread each, and returns
/// `count`. Where the system gives fewer threads, calls nothing and returns their number.
int run_at_once(int count, const std::function<void(int)>& call) {
  enum Verdict : int { none, go, go_home };
  std::atomic<int> verdict = none;
  std::vector<std::thread> threads;
  threads.reserve(count);
  try {
    for (int index = 0; index < count; ++index) {
      threads.emplace_back([&verdict, &call, index] {
        verdict.wait(none);
        if (verdict == go) call(index);
      });
    }
    verdict = go;
  } catch (const std::system_error&) {
    verdict = go_home;  // those that run would wait for the others for ever
  }
  verdict.notify_all();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

/// Its binary says how large a block's state is if the block is many threads and not one lane.
class HostKernel final : public Kernel {
 public:
  HostKernel(std::shared_ptr<const SharedObject> object, const std::string& entry)
      : name_(entry), object_(std::move(object)), entry_(object_->find(entry)) {
    if (entry_ == nullptr)
      throw BackendError("the binary of kernel '" + entry + "' has no such entry point");
    if (const void* bytes = object_->find(entry + "_state_bytes"); bytes != nullptr)
      state_bytes_ = *static_cast<const std::uint64_t*>(bytes);
  }

  // Blocks wait for the same block of other ranks, which comes in the same order there, and for
  // blocks of their own rank only where each has a core.
  int resident_blocks(int) const override { return std::numeric_limits<int>::max(); }
  int most_threads() const override { return state_bytes_ > 0 ? 1024 : 1; }

  void run(std::span<const std::uint64_t> words, const Grid& grid) const {
    if (state_bytes_ > 0) {
      run_threads(words, grid);
      return;
    }
    const auto entry = reinterpret_cast<LaneEntry>(entry_);
    const auto run_blocks = [&](int core) {
      for (long long block = core; block < grid.blocks; block += grid.cores)
        entry(words.data(), block, grid.blocks);
    };
    if (grid.cores == 1) {
      run_blocks(0);
    } else {
      CorePool::of_this_thread().run(grid.cores, run_blocks);
    }
  }

 private:
  using LaneEntry = void (*)(const void* arguments, long long block, long long blocks);
  using ThreadEntry = void (*)(const void* arguments, long long block, long long blocks, int thread,
                               int threads, void* state);
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes{};
  };

  void run_threads(std::span<const std::uint64_t> words, const Grid& grid) const {
    const auto entry = reinterpret_cast<ThreadEntry>(entry_);
    const std::size_t lines = (state_bytes_ + sizeof(Line) - 1) / sizeof(Line);
    std::vector<Line> states(grid.blocks * lines);
    const int count = grid.blocks * grid.threads;
    const int had = run_at_once(count, [&](int index) {
      const int block = index / grid.threads;
      entry(words.data(), block, grid.blocks, index % grid.threads, grid.threads,
            &states[block * lines]);
    });
    if (had == count) return;
    throw BackendError(
        fmt::format("kernel '{}' cannot run: {} blocks of {} threads must run at once, and the "
                    "system starts no more than {} threads; lower COCONET_HOST_THREADS or the knob "
                    "channels",
                    name_, grid.blocks, grid.threads, had));
  }

  std::string name_;
  std::shared_ptr<const SharedObject> object_;
  void* entry_;
  std::uint64_t state_bytes_ = 0;  ///< 0: a block is one lane
};

/// Zeroed memory; pages that nobody touches take none.
std::shared_ptr<Memory> map_memory(std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    throw BackendError(
        fmt::format("no memory for {} bytes of tensors: {}", bytes, std::strerror(errno)));
  }
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return std::make_shared<Memory>(static_cast<std::byte*>(data),
                                  [data, bytes] { munmap(data, bytes); });
}

/// Does everything when it is put in, by several threads for steps that run at once.
class HostQueue final : public Queue {
 public:
  explicit HostQueue(int cores) : cores_(cores) {}
  void launch(const Kernel& kernel, const Grid& grid,
              std::span<const std::uint64_t> words) override {
    static_cast<const HostKernel&>(kernel).run(words, grid);
    ++launches_;
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    for_each_part(bytes, [&](std::size_t begin, std::size_t count) {
      std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                  count);
    });
  }
  void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                 std::size_t bytes, std::size_t rows) override {
    for (std::size_t row = 0; row < rows; ++row) {
      copy(static_cast<std::byte*>(to) + row * to_stride,
           static_cast<const std::byte*>(from) + row * from_stride, bytes);
    }
  }
  void zero(void* at, std::size_t bytes) override {
    for_each_part(bytes, [&](std::size_t begin, std::size_t count) {
      std::memset(static_cast<std::byte*>(at) + begin, 0, count);
    });
  }
  bool idle() const override { return true; }
  void finish() override {}
  void* handle() const override { return nullptr; }
  bool being_recorded() const override { return false; }
  bool is_applications() const override { return false; }
  std::size_t launches() const override { return launches_; }

 private:
  /// Calls body(begin, count) for parts of `bytes`, on each core where they are long.
  template <class Body>
  void for_each_part(std::size_t bytes, const Body& body) const {
    constexpr std::size_t least = std::size_t{256} << 10, page = 4096;
    if (bytes > 0) spread(cores_, bytes, least, page, body);
  }

  int cores_;
  std::atomic<std::size_t> launches_ = 0;
};

class HostEvent final : public Event {
 public:
  void record(Queue&) override { time_ = std::chrono::steady_clock::now(); }
  void hold(Queue&) const override {}
  bool reached() const override { return true; }
  float ms_since(const Event& earlier) const override {
    return std::chrono::duration<float, std::milli>(time_ -
                                                    static_cast<const HostEvent&>(earlier).time_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

/// A thread for each piece of work; without enough threads one after the other, producers first.
class HostFork final : public Fork {
 public:
  void run(Queue&, std::size_t count,
           const std::function<void(Queue&, std::size_t)>& put) override {
    HostQueue queue(1);  // each thread is a core's
    std::vector<std::exception_ptr> failures(count);
    const auto put_one = [&](int number) {
      try {
        put(queue, number);
      } catch (...) {
        failures[number] = std::current_exception();
      }
    };
    const int threads = static_cast<int>(count);
    if (run_at_once(threads, put_one) < threads) {
      for (int number = 0; number < threads; ++number) put_one(number);
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure != nullptr) std::rethrow_exception(failure);
    }
  }
  void finish() override {}
};

class HostPlatform final : public Platform {
 public:
  HostPlatform()
      : Platform({.processor = "the host",
                  .immediate = true,
                  .pages_on_demand = true,
                  .shares_for_collectives = true,
                  .fixed_threads = config().host_threads}) {}
  const Compiler& compiler() const override {
    static const HostCompiler compiler(config().cxx, config().cxx_flags, config().compile_timeout,
                                       config().host_threads);
    return compiler;
  }
  std::shared_ptr<const Kernel> load(std::string_view binary, const std::string& entry,
                                     OpenFile file) const override {
    return std::make_shared<HostKernel>(
        std::make_shared<SharedObject>(binary, entry, std::move(file)), entry);
  }
  std::shared_ptr<Memory> allocate(std::size_t bytes) const override {
    return map_memory(std::max<std::size_t>(bytes, 1));
  }
  std::shared_ptr<Memory> allocate_on_host(std::size_t bytes) const override {
    return allocate(bytes);
  }
  std::shared_ptr<PeerMemory> allocate_peer(Comm& comm, std::size_t bytes, bool) const override {
    return comm.allocate(bytes);
  }
  void require_reachable(const void*, const std::string&) const override {}
  std::unique_ptr<Queue> make_queue(int cores) const override {
    return std::make_unique<HostQueue>(cores);
  }
  std::unique_ptr<Queue> wrap_queue(void*) const override { return make_queue(1); }
  std::unique_ptr<Event> make_event() const override { return std::make_unique<HostEvent>(); }
  std::unique_ptr<LaunchOrder> make_launch_order() const override { return nullptr; }
  std::unique_ptr<Fork> make_fork(const Queue&, std::size_t) const override {
    return std::make_unique<HostFork>();
  }
  std::unique_ptr<Recording> begin_recording() const override { return nullptr; }

  std::shared_ptr<Collectives> make_collectives(Comm& comm, const std::vector<int>& ranks,
                                                const std::string&,
                                                const NamedKernels&) const override {
    return comm.collectives(ranks);
  }
  void use_communicator(Comm&, void*) const override {
    throw BackendError(
        "World::use_nccl was called with COCONET_BACKEND=host, whose collectives are not NCCL's; "
        "call it with COCONET_BACKEND=cuda only");
  }
  std::unique_ptr<LibraryMatmul> make_matmul(MatmulShape shape) const override {
    return make_host_matmul(std::move(shape));
  }
  std::int64_t rows_of_tile(std::int64_t rows, std::int64_t columns) const override {
    return rows_of_host_tile(rows, columns);
  }
  int processes_here(Comm&) const override { return 1; }
  CoresOfRank cores_of(Comm& comm, const Config& config) const override {
    if (config.host_threads > 1) return {};  // blocks have threads of their own
    const CoresOfRank cores = agree_on_cores(comm, config.cores);
    together(comm, [&] { CorePool::of_this_thread().start(cores.count); });
    return cores;
  }
  Room room_for(Comm& comm, const Simultaneous& steps) const override {
    const bool fits = have_cores(comm, steps.steps);
    if (fits) return {.enough = true, .problem = {}};
    return {
        .enough = steps.forced,
        .shared = true,
        .problem = fmt::format("they are {} threads on each rank, and there is no core for every "
                               "one of them",
                               steps.steps)};
  }
  void require_whole_lines(Comm&, std::span<const int>, std::string_view) const override {}
};

}  // namespace

const Platform& host_platform() {
  static const HostPlatform platform;
  return platform;
}

std::vector<std::shared_ptr<const Kernel>> load_host_kernels(std::string_view binary,
                                                             std::span<const std::string> entries) {
  if (entries.empty()) return {};
  const auto object = std::make_shared<SharedObject>(binary, entries.front());
  std::vector<std::shared_ptr<const Kernel>> kernels;
  for (const std::string& entry : entries)
    kernels.push_back(std::make_shared<HostKernel>(object, entry));
  return kernels;
}

}  // namespace coconet::jit
