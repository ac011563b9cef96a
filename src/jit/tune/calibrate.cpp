// Small programs whose times say what the machine does.
#include "jit/tune/calibrate.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "coconet/config.h"
#include "coconet/error.h"
#include "coconet/program.h"
#include "jit/comm/access.h"
#include "jit/platform/host/compiler.h"
#include "jit/run/roofline.h"
#include "jit/tune/timing.h"
#include "sched/knobs.h"

namespace coconet::jit {
namespace {

using sched::Cluster;

/// Bytes of what a step works on, from the first level of caches to memory.
constexpr double memory_points[] = {1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28};
/// Bytes of whole tensors that library collectives are timed with: those from shared memory, in
/// place, and MPI's.
constexpr double library_points[] = {1 << 12, 1 << 15, 1 << 18, 1 << 19,
                                     1 << 21, 1 << 23, 1 << 25, 1 << 27};

/// Bytes that come from other ranks' caches.
constexpr double line_points[] = {1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25};
constexpr double mailbox_points[] = {1 << 12, 1 << 16, 1 << 20, 1 << 24};

/// Four digits, and more than nothing: small differences of times that vary may come out below 0.
double rounded(double value) {
  constexpr double least = 0.01;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::max(value, least))));
  return std::round(std::max(value, least) * scale) / scale;
}

/// The first line of /proc/cpuinfo that names the processor.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t at = line.find(": ");
    if (at != std::string::npos) return line.substr(at + 2);
  }
  return "unknown processor";
}

class Calibration {
 public:
  explicit Calibration(const World& world)
      : world_(world), comm_(comm_of(world)), platform_(platform_of(comm_)) {}

  Cluster run() {
    Cluster cluster;
    cluster.name = fmt::format("{}-{}rank", comm_.config().backend, world_.size());
    cluster.description = device_of(platform_) + ": measured by coconet calibrate";
    cluster.ranks_per_node = world_.size();
    measure_launch(cluster);
    measure_memory(cluster);
    measure_pointwise(cluster);
    measure_matmul(cluster);
    if (world_.size() > 1) {
      measure_barrier(cluster);
      measure_jumps(cluster);
      measure_lines(cluster);
      measure_library(cluster);
      measure_mailboxes(cluster);
    }
    cluster.overlaps = has_room_for_two();
    return cluster;
  }

 private:
  static constexpr int samples = 5;
  /// What a kernel has to do that does nothing else worth mentioning.
  static constexpr std::int64_t few = 64;

  [[nodiscard]] Program program(const std::string& name) const {
    return Program("calibrate_" + name, Mesh::over(world_));
  }

  /// Microseconds of a step.
  double us(const Program& program, const Sizes& sizes, const Schedule& schedule = Schedule()) {
    Contestant contestant(world_, program, schedule, sizes);
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) times.push_back(contestant.sample());
    return 1000 * median(std::move(times));
  }

  /// The kernels that a step has beyond its first, each.
  void measure_launch(Cluster& cluster) {
    constexpr int more = 8;
    const auto step_of = [&](int kernels) {
      Program step = program("launch");
      Schedule schedule("one_by_one");
      Value value = step.input("x", DType::f32, {Dim(few)}, local);
      for (int i = 0; i < kernels; ++i) {
        const std::string name = fmt::format("v{}", i);
        value = (value + static_cast<double>(i + 1)).named(name);
        schedule.fuse("kernel" + std::to_string(i), "computation", {name});
      }
      step.output("y", value);
      return us(step, {}, schedule);
    };
    const double one = step_of(1);
    cluster.launch_us = rounded((step_of(1 + more) - one) / more);
  }

  void measure_memory(Cluster& cluster) {
    Program step = program("memory");
    const Dim n = step.dim("n");
    const Value a = step.input("a", DType::f32, {n}, local);
    step.output("y", a + step.input("b", DType::f32, {n}, local));
    for (const double bytes : memory_points) {
      const auto elements = static_cast<std::int64_t>(bytes / (3 * sizeof(float)));
      const double own = us(step, {{"n", elements}}) - cluster.launch_us;
      cluster.memory.push_back(
          {bytes, rounded(static_cast<double>(elements) * 3 * sizeof(float) / own / 1e3)});
    }
  }

  /// Additions and multiplications of elements that stay in the first level of caches.
  void measure_pointwise(Cluster& cluster) {
    constexpr int rounds = 32;
    constexpr std::int64_t elements = 2048;
    Program step = program("pointwise");
    Value value = step.input("x", DType::f32, {Dim(elements)}, local);
    for (int i = 0; i < rounds; ++i) value = value * 0.75 + 0.125;
    step.output("y", value.named("chain"));
    const double own =
        us(step, {}, Schedule("chain").fuse("chain", "computation", {"chain"})) - cluster.launch_us;
    cluster.pointwise_gop_per_s = rounded(2.0 * rounds * elements / own / 1e3);
  }

  void measure_matmul(Cluster& cluster) {
    Roofline roofline(comm_, platform_);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      try {
        const double ms = largest(comm_, roofline.multiply_ms(dtype, 1));
        cluster.matmul_gop_per_s[dtype] = rounded(1e-6 / ms);
      } catch (const CommError&) {
        throw;
      } catch (const Error&) {  // there is no library
        if (dtype == DType::f32) cluster.matmul_gop_per_s[dtype] = cluster.pointwise_gop_per_s;
      }
    }
  }

  /// What a kernel takes for each meeting of its ranks.
  void measure_barrier(Cluster& cluster) {
    Program step = program("barrier");
    const Value x = step.input("x", DType::f32, {Dim(few)}, local);
    step.output("y", all_reduce(x, sum).named("total"));
    const double own = us(step, {}, Schedule("sum").fuse("sum", "all_reduce", {"total"}));
    cluster.barrier_us = rounded((own - cluster.launch_us) / 2);
  }

  /// What a kernel takes longer that reads its part of every row of a whole tensor, instead of a
  /// slice that lies in one piece.
  void measure_jumps(Cluster& cluster) {
    constexpr std::int64_t rows = 2048, columns = 384;  // of a slice
    const auto step_of = [&](const Layout& layout) {
      Program step = program("jumps");
      const Shape shape = {Dim(rows), Dim(columns * comm_.size())};
      const Value a = step.input("a", DType::f32, shape, layout);
      step.output("y", a + step.input("b", DType::f32, shape, sliced(1)));
      return step;
    };
    Contestant parts(world_, step_of(replicated), Schedule(), {}),
        pieces(world_, step_of(sliced(1)), Schedule(), {});
    std::vector<double> more_ms;
    for (int i = 0; i < 4 * samples; ++i) more_ms.push_back(parts.sample() - pieces.sample());
    cluster.jump_us = rounded(1000 * median(std::move(more_ms))) / rows;
  }

  /// What steps take longer together than alone, because one writes what the other reads of all
  /// ranks.
  void measure_lines(Cluster& cluster) {
    const auto step_of = [&](bool is_made, bool is_reduced) {
      Program step = program("lines");
      const Dim n = step.dim("n");
      Value x = step.input("x", DType::f32, {n}, local);
      Schedule schedule("lines");
      if (is_made) {
        x = (x + 1).named("made");
        schedule.fuse("make", "computation", {"made"});
      }
      if (is_reduced) {
        x = reduce_scatter(x, sum).named("total");
        schedule.fuse("sum", "reduce_scatter", {"total"});
      }
      step.output("y", x);
      return std::pair(step, schedule);
    };
    const auto [making, make] = step_of(true, false);
    const auto [reducing, reduce] = step_of(false, true);
    const auto [both, one_by_one] = step_of(true, true);
    const double others = comm_.size() - 1;
    for (const double bytes : line_points) {
      // They move twice: to whoever reads them, and back to be written again.
      const auto elements =
          static_cast<std::int64_t>(bytes / 2 / others * comm_.size() / sizeof(float));
      const Sizes sizes = {{"n", elements}};
      Contestant whole(world_, both, one_by_one, sizes), first(world_, making, make, sizes),
          second(world_, reducing, reduce, sizes);
      std::vector<double> more_ms;
      for (int i = 0; i < 4 * samples; ++i)
        more_ms.push_back(whole.sample() - first.sample() - second.sample());
      const double us = rounded(1000 * median(std::move(more_ms)));
      cluster.lines.push_back(
          {bytes, cluster.lines.empty() ? us : std::max(us, cluster.lines.back().us)});
    }
  }

  void measure_library(Cluster& cluster) {
    using Make = Value (*)(const Value& x);
    const struct {
      ir::Op op;
      Layout layout;
      Make make;
    } rows[] = {
        {ir::Op::all_reduce, local, [](const Value& x) { return all_reduce(x, sum); }},
        {ir::Op::reduce_scatter, local, [](const Value& x) { return reduce_scatter(x, sum); }},
        {ir::Op::all_gather, sliced(0), [](const Value& x) { return all_gather(x); }},
        {ir::Op::reduce, local, [](const Value& x) { return reduce(x, sum); }},
        {ir::Op::broadcast, local, [](const Value& x) { return broadcast(x); }},
    };
    for (const auto& row : rows) {
      Program step = program(std::string(to_string(row.op)));
      const Dim n = step.dim("n");
      step.output("y", row.make(step.input("x", DType::f32, {n}, row.layout)));
      for (const double bytes : library_points) {
        const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
        cluster.library[row.op].push_back({bytes, rounded(us(step, {{"n", elements}}))});
      }
    }
  }

  /// An all_reduce inside a kernel, by every algorithm and protocol that has mailboxes.
  void measure_mailboxes(Cluster& cluster) {
    Program step = program("mailboxes");
    const Dim n = step.dim("n");
    const Value x = step.input("x", DType::f32, {n}, local);
    step.output("y", all_reduce(x, sum).named("total"));
    for (const ir::KnobChoice& algorithm : ir::algorithm_choices) {
      for (const ir::KnobChoice& protocol : ir::protocol_choices) {
        Knobs knobs;
        knobs.algorithm = algorithm.name;
        knobs.protocol = protocol.name;
        if (sched::works_in_place(knobs) || !sched::conflict_in(knobs).empty()) continue;
        const Schedule schedule = Schedule("sum").fuse("sum", "all_reduce", {"total"}, knobs);
        auto& times = cluster.mailboxes[knobs.algorithm + ", " + knobs.protocol];
        for (const double bytes : mailbox_points) {
          const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
          times.push_back({bytes, rounded(us(step, {{"n", elements}}, schedule))});
        }
      }
    }
  }

  bool has_room_for_two() {
    const Room room = platform_.room_for(comm_, {.steps = 2, .blocks = 2});
    return room.enough && !room.shared;
  }

  const World& world_;
  Comm& comm_;
  const Platform& platform_;
};

}  // namespace

std::string device_of(const Platform& platform) {
  if (!platform.traits().immediate) {
    const std::string& processor = platform.traits().processor;
    return processor.substr(0, processor.rfind(", GPU"));
  }
  const std::string isa = HostCompiler::resolved_isa();
  return fmt::format("{} ({}), {} cores", processor_name(), isa.substr(0, isa.find('\n')),
                     sysconf(_SC_NPROCESSORS_ONLN));
}

sched::Cluster calibrate(const World& world) {
  return Calibration(world).run();
}

}  // namespace coconet::jit
