// Small programs whose times say what the machine does.
#include "jit/tune/calibrate.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
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

double rounded_share(double share) {
  return std::round(1000 * share) / 1000;
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
  Calibration(const World& world, Cluster& cluster, const std::function<void()>& keep,
              const std::function<bool()>& interrupted)
      : world_(world),
        comm_(comm_of(world)),
        platform_(platform_of(comm_)),
        cluster_(cluster),
        keep_(keep),
        interrupted_(interrupted) {}

  /// Whether it came to its end.
  bool run() {
    cluster_.name = fmt::format("measured-{}-{}rank", comm_.config().backend, world_.size());
    cluster_.description = device_of(platform_) + ": measured by coconet calibrate";
    cluster_.ranks_per_node = world_.size();
    cluster_.cores = platform_.cores_of(comm_, comm_.config()).count;
    try {
      if (cluster_.launch_us == 0) measure_launch();
      measure_memory();
      if (cluster_.pointwise_gop_per_s == 0) measure_pointwise();
      measure_matmul();
      if (world_.size() > 1) {
        if (cluster_.barrier_us == 0) measure_barrier();
        if (cluster_.jump_us == 0) measure_jumps();
        if (cluster_.lines.empty()) measure_lines();
        measure_library();
        measure_mailboxes();
      }
    } catch (const Interruption&) {
      return false;
    }
    const Room room = platform_.room_for(comm_, {.steps = 2, .blocks = 2});
    cluster_.overlaps = room.enough && !room.shared;
    return true;
  }

 private:
  static constexpr int samples = 5;
  /// What a kernel has to do that does nothing else worth mentioning.
  static constexpr std::int64_t few = 64;

  struct Interruption {};  ///< on all ranks alike

  /// Before a measurement.
  void go_on() const {
    if (interrupted_ && comm_.any_failed(interrupted_(), 0)) throw Interruption();
  }
  /// Collective: after one that `cluster_` has.
  void keep() {
    auto& measured = cluster_.measured ? *cluster_.measured : cluster_.measured.emplace();
    const auto now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
    measured.on = comm_.broadcast(sched::to_string(now), 0);
    // An earlier process may have measured a part.
    measured.preempted =
        std::max(measured.preempted, rounded_share(greatest_of_all(comm_, occupancy_.preempted())));
    if (!spreads_.empty()) measured.spread = rounded(median(spreads_));
    if (keep_) keep_();
  }

  [[nodiscard]] Program program(const std::string& name) const {
    return Program("calibrate_" + name, Mesh::over(world_));
  }

  /// Microseconds of a step.
  double us(const Program& program, const Sizes& sizes, const Schedule& schedule = Schedule()) {
    go_on();
    Contestant contestant(world_, program, schedule, sizes);
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) times.push_back(contestant.sample());
    const auto [least, most] = std::ranges::minmax(times);
    spreads_.push_back(most / least);
    occupancy_.add(contestant.occupancy());
    return 1000 * median(std::move(times));
  }

  /// The kernels that a step has beyond its first, each.
  void measure_launch() {
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
    cluster_.launch_us = rounded((step_of(1 + more) - one) / more);
    keep();
  }

  void measure_memory() {
    Program step = program("memory");
    const Dim n = step.dim("n");
    const Value a = step.input("a", DType::f32, {n}, local);
    step.output("y", a + step.input("b", DType::f32, {n}, local));
    const auto rate = [&](double bytes) {
      const auto elements = static_cast<std::int64_t>(bytes / (3 * sizeof(float)));
      const double own = us(step, {{"n", elements}}) - cluster_.launch_us;
      return rounded(static_cast<double>(elements) * 3 * sizeof(float) / own / 1e3);
    };
    std::vector<Cluster::Rate>& memory = cluster_.memory;
    const bool was_whole = memory.size() == std::size(memory_points);
    for (const double bytes : memory_points) {
      if (!memory.empty() && memory.back().bytes >= bytes) continue;
      memory.push_back({bytes, rate(bytes)});
      keep();
    }
    if (was_whole) return;
    // No level of memory is slower than a larger one, but what a kernel costs besides is most of
    // the least point.
    std::vector<double> costs;
    for (std::size_t i = 1; i < memory.size(); ++i) costs.push_back(1 / memory[i].gb_per_s);
    measure_what_falls_again(costs, [&](std::size_t i) { return 1 / rate(memory[i + 1].bytes); });
    for (std::size_t i = 1; i < memory.size(); ++i) memory[i].gb_per_s = rounded(1 / costs[i - 1]);
    keep();
  }

  /// Times of a step over as many bytes as each of `points` says.
  template <std::size_t count>
  std::vector<Cluster::Time> times_of(const Program& step, const double (&points)[count],
                                      const Schedule& schedule = Schedule()) {
    const auto time = [&](std::size_t i) {
      return us(step, {{"n", static_cast<std::int64_t>(points[i] / sizeof(float))}}, schedule);
    };
    std::vector<double> costs;
    for (std::size_t i = 0; i < count; ++i) costs.push_back(time(i));
    measure_what_falls_again(costs, time);
    std::vector<Cluster::Time> times;
    for (std::size_t i = 0; i < count; ++i) times.push_back({points[i], rounded(costs[i])});
    return times;
  }

  /// Additions and multiplications of elements that stay in the first level of caches.
  void measure_pointwise() {
    constexpr int rounds = 32;
    constexpr std::int64_t elements = 2048;
    Program step = program("pointwise");
    Value value = step.input("x", DType::f32, {Dim(elements)}, local);
    for (int i = 0; i < rounds; ++i) value = value * 0.75 + 0.125;
    step.output("y", value.named("chain"));
    const double own = us(step, {}, Schedule("chain").fuse("chain", "computation", {"chain"})) -
                       cluster_.launch_us;
    cluster_.pointwise_gop_per_s = rounded(2.0 * rounds * elements / own / 1e3);
    keep();
  }

  void measure_matmul() {
    Roofline roofline(comm_, platform_, cluster_.cores);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (cluster_.matmul_gop_per_s.contains(dtype)) continue;
      go_on();
      try {
        const double ms = greatest_of_all(comm_, roofline.multiply_ms(dtype, 1));
        cluster_.matmul_gop_per_s[dtype] = rounded(1e-6 / ms);
      } catch (const CommError&) {
        throw;
      } catch (const Error&) {  // there is no library
        if (dtype == DType::f32) cluster_.matmul_gop_per_s[dtype] = cluster_.pointwise_gop_per_s;
      }
      keep();
    }
  }

  /// What a kernel takes for each meeting of its ranks.
  void measure_barrier() {
    Program step = program("barrier");
    const Value x = step.input("x", DType::f32, {Dim(few)}, local);
    step.output("y", all_reduce(x, sum).named("total"));
    const double own = us(step, {}, Schedule("sum").fuse("sum", "all_reduce", {"total"}));
    cluster_.barrier_us = rounded((own - cluster_.launch_us) / 2);
    keep();
  }

  /// What a kernel takes longer that reads its part of every row of a whole tensor, instead of a
  /// slice that lies in one piece.
  void measure_jumps() {
    constexpr std::int64_t rows = 2048, columns = 384;  // of a slice
    const auto step_of = [&](const Layout& layout) {
      Program step = program("jumps");
      const Shape shape = {Dim(rows), Dim(columns * comm_.size())};
      const Value a = step.input("a", DType::f32, shape, layout);
      step.output("y", a + step.input("b", DType::f32, shape, sliced(1)));
      return step;
    };
    go_on();
    Contestant parts(world_, step_of(replicated), Schedule(), {}),
        pieces(world_, step_of(sliced(1)), Schedule(), {});
    std::vector<double> more_ms;
    for (int i = 0; i < 4 * samples; ++i) more_ms.push_back(parts.sample() - pieces.sample());
    cluster_.jump_us = rounded(1000 * median(std::move(more_ms))) / rows;
    keep();
  }

  /// What steps take longer together than alone, because one writes what the other reads of all
  /// ranks.
  void measure_lines() {
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
    std::vector<Cluster::Time> lines;
    for (const double bytes : line_points) {
      go_on();
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
      lines.push_back({bytes, lines.empty() ? us : std::max(us, lines.back().us)});
    }
    cluster_.lines = std::move(lines);
    keep();
  }

  void measure_library() {
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
      if (cluster_.library.contains(row.op)) continue;
      Program step = program(std::string(to_string(row.op)));
      const Dim n = step.dim("n");
      step.output("y", row.make(step.input("x", DType::f32, {n}, row.layout)));
      cluster_.library[row.op] = times_of(step, library_points);
      keep();
    }
  }

  /// An all_reduce inside a kernel, by every algorithm and protocol that has mailboxes.
  void measure_mailboxes() {
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
        const std::string way = knobs.algorithm + ", " + knobs.protocol;
        if (cluster_.mailboxes.contains(way)) continue;
        cluster_.mailboxes[way] = times_of(step, mailbox_points, schedule);
        keep();
      }
    }
  }

  const World& world_;
  Comm& comm_;
  const Platform& platform_;
  Cluster& cluster_;
  const std::function<void()>& keep_;
  const std::function<bool()>& interrupted_;
  Occupancy occupancy_;          ///< of this rank's thread
  std::vector<double> spreads_;  ///< of what was measured, each the largest time over the least
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

void measure_what_falls_again(std::vector<double>& costs,
                              const std::function<double(std::size_t)>& again) {
  constexpr double tolerance = 0.9;
  constexpr int most_rounds = 3;
  bool falls = true;
  for (int round = 0; round < most_rounds && falls; ++round) {
    falls = false;
    for (std::size_t i = 1; i < costs.size(); ++i) {
      if (costs[i] >= tolerance * costs[i - 1]) continue;
      costs[i - 1] = std::min(costs[i - 1], again(i - 1));
      falls = true;
    }
  }
}

bool calibrate(const World& world, sched::Cluster& cluster, const std::function<void()>& keep,
               const std::function<bool()>& interrupted) {
  return Calibration(world, cluster, keep, interrupted).run();
}

}  // namespace coconet::jit
