// Kernels that only wait for each other, and a copy.
#include "gpu_probes.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "gpu_steps.h"
#include "gpu_timing.h"
#include "jit/abi/abi.h"
#include "jit/codegen/codegen.h"
#include "jit/comm/access.h"
#include "jit/platform/cuda/driver.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/cuda/queue.h"

namespace bench {

namespace {

namespace jit = coconet::jit;

using Words = std::vector<std::uint64_t>;

/// A wait that takes longer is for a kernel that has not begun: the GPU runs one after the other.
constexpr std::uint64_t patience_ns = 200'000'000;
/// Looks before a thread of the host gives way.
constexpr std::uint64_t spins = 1000;

std::shared_ptr<const jit::Kernel> make_kernel(const jit::Device& device, const std::string& text,
                                               const std::string& entry, int ranks) {
  const jit::CompileResult result =
      jit::NvrtcCompiler(jit::nvrtc::target_for(device.arch).arch, false, ranks)
          .compile(jit::prelude("cuda") + text + "KERNEL_ENTRY(" + entry + ")\n");
  if (!result.ok)
    throw std::runtime_error("kernel '" + entry + "' does not compile:\n" + result.log);
  return jit::load_cuda_kernel(device, result.binary, entry, ranks);
}

std::uint64_t word(const void* address) {
  return reinterpret_cast<std::uint64_t>(address);
}

/// Rounds of "I am here; are you?"; [me] of `came` is the round, and of `done` how many had an
/// answer.
constexpr const char* handshake_text = R"(
struct Args {
  u64 *came, *done;
  u64 me, rounds, patience, spins;
};
DEVICE void handshake_block(const Args& a, const Block& block) {
  if (!is_leader(block)) return;
  const u64 other = 1 - a.me;
  for (u64 round = 1; round <= a.rounds; ++round) {
    store_relaxed(a.came + a.me * FLAG_STRIDE, round);
    const u64 began = now();
    for (u64 looks = 1; load_relaxed(a.came + other * FLAG_STRIDE) < round; ++looks) {
      relax(looks, a.spins);
      if (looks % 64 == 0 && now() - began > a.patience) return;
    }
    a.done[a.me * FLAG_STRIDE] = round;
  }
}
)";

constexpr const char* barriers_text = R"(
struct Args {
  Sync<R> sync;
  u64 barriers;
};
DEVICE void barriers_block(const Args& a, const Block& block) {
  for (u64 i = 0; i < a.barriers; ++i) {
    if (!rank_barrier(block, a.sync, i)) return;
  }
}
)";

/// Two launches of one kernel, each of which waits for the other.
class Handshake {
 public:
  Handshake(const coconet::World& world, std::uint64_t rounds)
      : platform_(backend_of(world)),
        device_(jit::device_of(coconet::jit::comm_of(world))),
        kernel_(make_kernel(device_, handshake_text, "handshake", 1)),
        words_(platform_.allocate(sizeof(std::uint64_t) * 4 * jit::abi::FLAG_STRIDE)),
        queue_(platform_.make_queue()),
        begin_(platform_.make_event()),
        end_(platform_.make_event()),
        rounds_(rounds) {}

  /// Milliseconds; below 0 where one of them began after the other had given up.
  double run(bool cooperative, bool in_graph) {
    const std::unique_ptr<jit::Graph> graph = in_graph ? record(cooperative) : nullptr;
    const std::size_t words = 4 * jit::abi::FLAG_STRIDE;
    queue_->zero(words_->data(), words * sizeof(std::uint64_t));
    begin_->record(*queue_);
    if (graph) {
      graph->launch(*queue_);
    } else {
      put(*queue_, cooperative);
    }
    end_->record(*queue_);
    Words found(words);
    queue_->copy(found.data(), words_->data(), words * sizeof(std::uint64_t));
    queue_->finish();
    const bool met =
        found[2 * jit::abi::FLAG_STRIDE] == rounds_ && found[3 * jit::abi::FLAG_STRIDE] == rounds_;
    return met ? static_cast<double>(end_->ms_since(*begin_)) : -1;
  }

 private:
  std::unique_ptr<jit::Graph> record(bool cooperative) {
    const std::unique_ptr<jit::Recording> recording = platform_.begin_recording();
    put(recording->queue(), cooperative);
    return recording->finish();
  }
  void put(jit::Queue& queue, bool cooperative) {
    fork_ = platform_.make_fork(queue, 2);
    fork_->run(queue, 2, [&](jit::Queue& branch, std::size_t me) {
      auto* const words = reinterpret_cast<std::uint64_t*>(words_->data());
      branch.launch(*kernel_, {.blocks = 1, .threads = 32, .together = cooperative},
                    Words{word(words), word(words + 2 * jit::abi::FLAG_STRIDE), me, rounds_,
                          patience_ns, spins});
    });
  }

  const jit::Platform& platform_;
  const jit::Device& device_;
  std::shared_ptr<const jit::Kernel> kernel_;
  std::shared_ptr<jit::Memory> words_;
  std::unique_ptr<jit::Queue> queue_;
  std::unique_ptr<jit::Fork> fork_;
  std::unique_ptr<jit::Event> begin_, end_;
  std::uint64_t rounds_;
};

/// A kernel of R ranks that meet so many times.
template <int R>
class Barriers {
 public:
  explicit Barriers(const coconet::World& world)
      : platform_(backend_of(world)),
        device_(jit::device_of(coconet::jit::comm_of(world))),
        kernel_(make_kernel(device_,
                            "constexpr int R = " + std::to_string(R) + ";\n" + barriers_text,
                            "barriers", R)),
        memory_(platform_.allocate(sizeof(std::uint64_t) * (R * flags + words_of_fault + 1))),
        queue_(platform_.make_queue()),
        begin_(platform_.make_event()),
        end_(platform_.make_event()) {}

  /// Milliseconds of a launch.
  double run(int blocks, std::uint64_t barriers) {
    auto* const memory = reinterpret_cast<std::uint64_t*>(memory_->data());
    Words words;
    for (std::uint64_t rank = 0; rank < R; ++rank) {
      struct {
        jit::abi::Sync<R> sync;
        std::uint64_t barriers;
      } arguments{};
      jit::abi::Sync<R>& sync = arguments.sync;
      sync.own_flags = memory + rank * flags;
      sync.fault = reinterpret_cast<jit::abi::Fault*>(memory + R * flags);
      sync.epoch = epoch_;
      sync.rank = rank;
      sync.timeout = 50 * patience_ns;
      sync.spin_limit = spins;
      sync.notices = memory + R * flags + words_of_fault;  // of every peer: a word that stays 0
      for (int peer = 0; peer < R; ++peer) sync.flags[peer] = memory + peer * flags;
      arguments.barriers = barriers;
      const std::size_t at = words.size();
      words.resize(at + sizeof arguments / sizeof(std::uint64_t));
      std::memcpy(words.data() + at, &arguments, sizeof arguments);
    }
    epoch_ += barriers;
    begin_->record(*queue_);
    queue_->launch(*kernel_, {.blocks = blocks, .threads = 256, .ranks = R, .together = true},
                   words);
    end_->record(*queue_);
    std::uint64_t fault = 0;
    queue_->copy(&fault, memory + R * flags, sizeof fault);
    queue_->finish();
    if (fault != 0)
      throw std::runtime_error("a barrier of " + std::to_string(R) + " ranks took 10 s");
    return static_cast<double>(end_->ms_since(*begin_));
  }

 private:
  static constexpr std::size_t most_blocks = 16;
  static constexpr std::size_t flags = most_blocks * R * jit::abi::FLAG_STRIDE;
  static constexpr std::size_t words_of_fault = sizeof(jit::abi::Fault) / sizeof(std::uint64_t);

  const jit::Platform& platform_;
  const jit::Device& device_;
  std::shared_ptr<const jit::Kernel> kernel_;
  std::shared_ptr<jit::Memory> memory_;
  std::unique_ptr<jit::Queue> queue_;
  std::unique_ptr<jit::Event> begin_, end_;
  std::uint64_t epoch_ = 1;
};

template <int R>
void measure_barriers_of(const coconet::World& world, bool small, Table& table) {
  Barriers<R> kernel(world);
  const std::uint64_t many = small ? 20 : 1000;
  for (const int blocks : small ? std::vector{1} : std::vector{1, 16}) {
    std::vector<double> times;
    for (int sample = 0; sample < (small ? 2 : samples); ++sample) {
      const double of_one = kernel.run(blocks, 1);
      times.push_back((kernel.run(blocks, 1 + many) - of_one) * 1e3 / static_cast<double>(many));
    }
    const double us = median(times);
    table.add({.what = "barrier of " + std::to_string(R) + " ranks on one GPU",
               .size = std::to_string(blocks) + " x 256 threads a rank",
               .result = decimals(us, 2) + " us",
               .numbers = {{"ranks", R}, {"blocks", blocks}, {"us", us}}});
  }
}

}  // namespace

void hold_context() {
  const jit::Device& device = jit::Device::at(0);
  int mode = CU_COMPUTEMODE_DEFAULT;
  jit::check(
      jit::driver().device_attribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device.ordinal),
      "asking for the compute mode");
  if (mode != CU_COMPUTEMODE_DEFAULT)
    throw std::runtime_error("the GPU's compute mode allows no process beside another");
  for (;;) pause();
}

void measure_copy(bool small, Table& table) {
  const coconet::World world = coconet::World::self();
  const jit::Platform& platform = backend_of(world);
  for (const int exponent : small ? std::vector{20} : std::vector{24, 27, 30}) {
    const std::size_t bytes = std::size_t{1} << exponent;
    Stopwatch watch(coconet::jit::comm_of(world), platform);
    Copy copy(platform, watch, bytes);
    watch.measure({&copy}, small ? 1 : 10);
    table.add({.what = "copy on the GPU, bytes read and written",
               .size = power_of_two(exponent) + " B",
               .result = decimals(copy.ms * 1e3, 1) + " us, " + copy.rate(copy.ms),
               .numbers = {{"ms", copy.ms}, {"gigabytes", copy.gigabytes()}}});
  }
}

void measure_handshakes(bool small, Table& table) {
  const coconet::World world = coconet::World::self();
  const std::uint64_t rounds = small ? 20 : 1000;
  Handshake handshake(world, rounds);
  for (const bool in_graph : {false, true}) {
    for (const bool cooperative : {false, true}) {
      const double ms = handshake.run(cooperative, in_graph);
      const double us = ms * 1e3 / static_cast<double>(rounds);
      table.add(
          {.what = std::string("two kernels that wait for each other, ") +
                   (cooperative ? "cooperative, " : "") +
                   (in_graph ? "branches of a graph" : "two streams"),
           .size = std::to_string(rounds) + " rounds",
           .result = ms < 0 ? "one after the other" : "at once, " + decimals(us, 2) + " us a round",
           .target = {"at once", ms >= 0},
           .numbers = {{"graph", in_graph}, {"cooperative", cooperative}, {"us", us}}});
    }
  }
}

void measure_barriers(bool small, Table& table) {
  const coconet::World world = coconet::World::self();
  measure_barriers_of<2>(world, small, table);
  measure_barriers_of<4>(world, small, table);
  measure_barriers_of<8>(world, small, table);
}

}  // namespace bench
