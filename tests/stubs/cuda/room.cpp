// Taking room, and waiting for a turn to do so.
#include "room.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>

#include "runtime.h"

namespace stub {
namespace {

constexpr unsigned threads_of_processor = 2048;
constexpr unsigned registers_of_processor = 65536;
constexpr unsigned blocks_of_processor = 32;

/// How long ready work waits for others to be ready, so that there is something to draw from.
constexpr std::chrono::microseconds settling{300};
/// How soon room that another process gave back is found.
constexpr std::chrono::microseconds looking{200};

bool is_on(const char* name) {
  return setting(name, 0) != 0;
}

/// What is taken of the GPUs, by one process or several. All zero at first.
struct Taken {
  struct Processor {
    unsigned threads = 0, registers = 0, blocks = 0;
  };
  std::atomic<int> locked = 0;
  Processor processors[16][256];
};

Taken& map_taken() {
  const char* const shared = std::getenv("STUB_CUDA_SHARED");
  const int file = shared == nullptr ? -1 : open(shared, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (shared != nullptr && (file == -1 || ftruncate(file, sizeof(Taken)) != 0)) std::abort();
  void* const at = mmap(nullptr, sizeof(Taken), PROT_READ | PROT_WRITE,
                        file == -1 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  if (at == MAP_FAILED) std::abort();
  return *static_cast<Taken*>(at);
}

Taken& taken() {
  static Taken& all = map_taken();
  return all;
}

/// The room of all GPUs, for as long as it lives.
class Room {
 public:
  Room() {
    while (taken().locked.exchange(1) != 0) sched_yield();
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room() { taken().locked.store(0); }

  /// The multiprocessor that took a block, the emptiest one; -1 where none has room.
  static int take(int device, const Need& need) {
    Taken::Processor* const all = taken().processors[device];
    Taken::Processor* const best =
        std::min_element(all, all + multiprocessors(), [](const auto& a, const auto& b) {
          return a.threads + a.registers < b.threads + b.registers;
        });
    if (best->threads + need.threads > threads_of_processor ||
        best->registers + need.threads * need.registers > registers_of_processor ||
        best->blocks == blocks_of_processor)
      return -1;
    best->threads += need.threads;
    best->registers += need.threads * need.registers;
    ++best->blocks;
    return static_cast<int>(best - all);
  }
  static void give(int device, const Need& need, int place) {
    Taken::Processor& processor = taken().processors[device][place];
    processor.threads -= need.threads;
    processor.registers -= need.threads * need.registers;
    --processor.blocks;
  }
};

}  // namespace

/// Whose turn it is to start, on the GPUs of this process.
class Starts {
 public:
  /// Waits for room and a turn.
  void begin(Running& running) {
    const long long seed = setting("STUB_CUDA_SEED", 0);
    std::unique_lock lock(mutex_);
    Gpu& gpu = gpus_[running.device_];
    if (gpu.draws == nullptr) gpu.draws = std::make_unique<std::mt19937>(first_of(seed, running));
    std::uint64_t draw = ++arrivals_;
    if (seed != 0) {
      draw += std::uint64_t{(*gpu.draws)()} << 32;
      changed_.wait_for(lock, settling, [] { return false; });
    }
    gpu.ready[draw] = &running;
    start(gpu, seed % 2 != 0);
    while (gpu.ready.contains(draw)) {
      changed_.wait_for(lock, looking);
      start(gpu, seed % 2 != 0);
    }
  }

  void end(Running& running) {
    const std::lock_guard lock(mutex_);
    {
      const Room room;
      for (const int place : running.places_) Room::give(running.device_, running.need_, place);
    }
    if (running.need_.cooperative) --gpus_[running.device_].cooperative;
    changed_.notify_all();
  }

 private:
  struct Gpu {
    std::map<std::uint64_t, Running*> ready;  ///< by draw, the smallest first
    std::unique_ptr<std::mt19937> draws;
    int cooperative = 0;  ///< launches that run
  };

  // Processes of a job draw differently.
  static unsigned first_of(long long seed, const Running& running) {
    const long long rank = setting("OMPI_COMM_WORLD_RANK", 0);
    return static_cast<unsigned>(seed * 10007 + rank * 101 + running.device_);
  }

  // Starts what is ready and has room.
  void start(Gpu& gpu, bool strict) {
    for (auto next = gpu.ready.begin(); next != gpu.ready.end();) {
      const bool started = take(gpu, *next->second);
      if (!started && strict) break;
      next = started ? gpu.ready.erase(next) : std::next(next);
    }
    changed_.notify_all();
  }

  static bool take(Gpu& gpu, Running& running) {
    const Need& need = running.need_;
    if (need.cooperative && gpu.cooperative > 0 && is_on("STUB_CUDA_COOPERATIVE")) return false;
    if (need.blocks > 0 && is_on("STUB_CUDA_ROOM")) {
      const Room room;
      const unsigned wanted = need.together ? need.blocks : 1;
      while (running.places_.size() < wanted) {
        const int place = Room::take(running.device_, need);
        if (place < 0) {
          for (const int one : running.places_) Room::give(running.device_, need, one);
          running.places_.clear();
          return false;
        }
        running.places_.push_back(place);
      }
    }
    if (need.cooperative) ++gpu.cooperative;
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Gpu> gpus_;
  std::uint64_t arrivals_ = 0;
};

unsigned registers() {
  return static_cast<unsigned>(setting("STUB_CUDA_REGISTERS", 32));
}

unsigned occupancy(unsigned threads) {
  threads = std::max(threads, 1U);
  const unsigned room =
      std::min(threads_of_processor / threads, registers_of_processor / (threads * registers()));
  return static_cast<unsigned>(setting("STUB_CUDA_OCCUPANCY", std::min(room, blocks_of_processor)));
}

Running::Running(int device, const Need& need) : device_(device), need_(need) {
  immortal<Starts>().begin(*this);
}

Running::~Running() {
  immortal<Starts>().end(*this);
}

bool Running::take_block() {
  if (!is_on("STUB_CUDA_ROOM")) return true;
  const Room room;
  const int place = Room::take(device_, need_);
  if (place >= 0) places_.push_back(place);
  return place >= 0;
}

void Running::give_block() {
  const Room room;
  if (places_.empty()) return;
  Room::give(device_, need_, places_.back());
  places_.pop_back();
}

}  // namespace stub
