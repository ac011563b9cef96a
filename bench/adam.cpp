// Times one data-parallel Adam step on two ranks: this library's schedules against MPI_Allreduce
// with a vectorized loop (the peer) and against a fused loop written by hand (the floor). All of
// them must compute the same weights.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/coconet.h"
#include "floor.h"
#include "peer.h"
#include "timing.h"

#if !defined(__NO_MATH_ERRNO__) || (defined(__x86_64__) && !defined(__AVX__))
#error "the contestants need -O3 -march=native -mprefer-vector-width=512 -fno-math-errno"
#endif

namespace {

constexpr std::string_view schedules[] = {"fused", "sliced", "unfused"};

struct Options {
  bool quick = false;
  std::string json;
};

struct Row {
  std::string name;
  std::size_t n = 0;
  double ms = 0, peer_ms = 0, floor_ms = 0;
  [[nodiscard]] double ratio_peer() const { return peer_ms / ms; }
  [[nodiscard]] double ratio_floor() const { return ms / floor_ms; }
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--json" && i + 1 < argc) {
      options.json = argv[++i];
    } else {
      throw std::invalid_argument("usage: adam [--quick] [--json FILE]");
    }
  }
  return options;
}

/// This library's step under one schedule, on `tensors`.
coconet::Executable compile(const coconet::World& world, bench::Tensors& tensors, std::size_t n,
                            std::string_view schedule) {
  auto step = coconet::compile(coconet::programs::adam(coconet::Mesh::over(world)),
                               coconet::Schedule::load("adam-" + std::string(schedule) + ".json"),
                               world, {{"n", static_cast<std::int64_t>(n)}});
  step.bind("g", tensors.g);
  step.bind("w", tensors.w);
  step.bind("m", std::span(tensors.m.get(), step.count("m")));
  step.bind("v", std::span(tensors.v.get(), step.count("v")));
  return step;
}

/// Gradients that differ between ranks and elements, some of them zero.
std::vector<float> make_gradient(std::size_t n, int rank) {
  std::vector<float> g(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = 0.01f * (static_cast<float>((7 * i + 3 * static_cast<std::size_t>(rank)) % 19) - 9.0f);
  }
  return g;
}

/// Collective: throws unless `steps` steps of `contestant` lead to the weights `expected`, on every
/// rank. An empty `expected` is filled in.
void verify(bench::Contestant& contestant, std::span<const float> weights, int steps,
            std::vector<float>& expected) {
  contestant.begin();
  for (int t = 1; t <= steps; ++t) contestant.step(t);
  MPI_Barrier(MPI_COMM_WORLD);
  if (expected.empty()) expected.assign(weights.begin(), weights.end());
  float worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float difference = std::abs(weights[i] - expected[i]);
    worst = difference <= worst ? worst : difference;  // in this order a NaN is kept
  }
  int wrong = worst <= 1e-6f ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (wrong != 0) {
    throw std::runtime_error(contestant.name +
                             " computes other weights than the peer: they differ by " +
                             std::to_string(worst) + " on this rank, and 1e-6 is allowed");
  }
}

std::vector<Row> measure_size(const coconet::World& world, std::size_t n) {
  const std::vector<float> g = make_gradient(n, world.rank());
  const std::vector<float> w(n, 0.5f);
  std::vector<float> after_one, after_three;
  std::vector<bench::Contestant> contestants;

  bench::Peer peer(n, world.size(), false);
  contestants.push_back(
      {.name = "peer", .begin = [&] { peer.begin(g, w); }, .step = [&](int t) { peer.step(t); }});
  verify(contestants.back(), peer.weights(), 3, after_three);
  // This one's gradient grows from step to step, so that only its first step is the others'.
  verify(contestants.back(), peer.weights(), 1, after_one);
  bench::Peer peer_in_place(n, world.size(), true);
  contestants.push_back({.name = "peer, in place",
                         .begin = [&] { peer_in_place.begin(g, w); },
                         .step = [&](int t) { peer_in_place.step(t); },
                         .most_steps = bench::Peer::most_steps});
  verify(contestants.back(), peer_in_place.weights(), 1, after_one);

  bench::Tensors tensors(world, n);
  const auto enter = [&](std::string_view name, std::function<void(int)> step) {
    contestants.push_back({.name = std::string(name),
                           .begin = [&] { tensors.reset(world, g, w); },
                           .step = std::move(step)});
    verify(contestants.back(), tensors.w.as<float>(), 3, after_three);
  };
  bench::Floor floor(world, tensors, n, false);
  bench::Floor floor_streaming(world, tensors, n, true);
  enter("floor", [&](int t) { floor.step(t); });
  enter("floor, streaming stores", [&](int t) { floor_streaming.step(t); });
  std::vector<std::unique_ptr<coconet::Executable>> ours;
  for (const std::string_view schedule : schedules) {
    auto& step = *ours.emplace_back(
        std::make_unique<coconet::Executable>(compile(world, tensors, n, schedule)));
    enter(schedule, [&step](int t) { step.run({{"lr", bench::learning_rate}, {"t", t}}); });
  }

  bench::measure(contestants, 15, 0.5);

  const auto time_of = [&](std::string_view name) {
    return std::ranges::find(contestants, name, &bench::Contestant::name)->ms;
  };
  const double peer_ms = std::min(time_of("peer"), time_of("peer, in place"));
  const double floor_ms = std::min(time_of("floor"), time_of("floor, streaming stores"));
  std::vector<Row> rows;
  for (const std::string_view schedule : schedules) {
    rows.push_back({std::string(schedule), n, time_of(schedule), peer_ms, floor_ms});
  }
  return rows;
}

void print(const Row& row) {
  std::printf("%-8s %10zu %12.5f %12.5f %12.5f %12.2f %12.2f\n", row.name.c_str(), row.n, row.ms,
              row.peer_ms, row.floor_ms, row.ratio_peer(), row.ratio_floor());
}

void write_json(const std::string& file, const std::vector<Row>& rows) {
  std::ofstream out(file);
  out << "{\"bench\": \"adam\", \"dtype\": \"f32\", \"ranks\": 2, \"rows\": [\n";
  for (const Row& row : rows) {
    char text[256];
    std::snprintf(
        text, sizeof text,
        "  {\"name\": \"%s\", \"n\": %zu, \"ms\": %.6g, \"peer_ms\": %.6g, \"floor_ms\": %.6g, "
        "\"ratio_peer\": %.4g, \"ratio_floor\": %.4g}%s\n",
        row.name.c_str(), row.n, row.ms, row.peer_ms, row.floor_ms, row.ratio_peer(),
        row.ratio_floor(), &row == &rows.back() ? "" : ",");
    out << text;
  }
  out << "]}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

void run(const Options& options) {
  const coconet::World world = coconet::World::mpi();
  if (world.size() != 2)
    throw std::invalid_argument("start the benchmark with mpirun -n 2: it compares two ranks");
  const std::vector<int> exponents =
      options.quick ? std::vector{12, 18, 24} : std::vector{10, 12, 14, 16, 18, 20, 22, 24};
  const bool prints = world.rank() == 0;
  if (prints) {
    std::printf("%-8s %10s %12s %12s %12s %12s %12s\n", "name", "n", "ms", "peer_ms", "floor_ms",
                "ratio_peer", "ratio_floor");
  }
  std::vector<Row> rows;
  for (const int exponent : exponents) {
    for (Row& row : measure_size(world, std::size_t{1} << exponent)) {
      if (prints) print(row);
      rows.push_back(std::move(row));
    }
    std::fflush(stdout);
  }
  if (prints && !options.json.empty()) write_json(options.json, rows);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
