// An executable: its buffers, bindings and reports.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "coconet/coconet.h"
#include "files.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "jit/comm/require_on_rank.h"
#include "jit/kernels/kernel_store.h"
#include "precisions.h"
#include "require_exit.h"
#include "sample.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr std::size_t padding = 64;

std::size_t padded(std::size_t bytes) {
  return (bytes + padding - 1) / padding * padding;
}

/// x += factor * g, on every rank, and y = x before that.
Program accumulate(int ranks) {
  Program program("accumulate", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n", 100);
  const Value g = program.input("g", f32, {n}, local);
  const Value x = program.state("x", f32, {n}, local);
  const Value factor = program.scalar("factor");
  update(x, x + factor * g);
  program.output("y", x * 1);
  return program;
}

}  // namespace

TEST_CASE("fused Adam and LAMB hold 1/n of the moments, padded to 64 bytes") {
  for (const std::string optimizer : {"adam", "lamb"}) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const std::size_t n : {1, 2, 17, 1000, 4099}) {
        INFO(optimizer << " on " << ranks << " ranks, " << n << " elements");
        REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
          const Executable step =
              compile_shipped(world, optimizer, "fused", static_cast<std::int64_t>(n));
          const std::size_t rank = static_cast<std::size_t>(world.rank());
          const std::size_t block =
              static_cast<std::size_t>(block_length(static_cast<std::int64_t>(n), world.size()));
          const std::size_t begin = std::min(n, rank * block);
          for (const char* name : {"m", "v"}) {
            REQUIRE_ON_RANK(step.count(name) == std::min(n, begin + block) - begin);
            REQUIRE_ON_RANK(step.allocated_bytes(name) == padded(block * sizeof(float)));
          }
          for (const char* name : {"w", "g"}) {
            REQUIRE_ON_RANK(step.count(name) == n);
            REQUIRE_ON_RANK(step.allocated_bytes(name) == padded(n * sizeof(float)));
          }
        }));
      }
    }
  }
}

TEST_CASE("all that an optimizer keeps beside the weights takes 1/n of the memory on slices") {
  constexpr std::size_t n = 1000;
  constexpr int ranks = 3;
  for (const InPrecision& usual : usual_programs()) {
    const programs::Shipped& shipped = usual.shipped;
    if (shipped.with == nullptr) continue;
    const Program program = usual.build(ranks);
    for (const std::string_view schedule : shipped.schedules) {
      if (!draw()) continue;
      INFO(shipped.name << " " << schedule << ", " << to_text(usual.precision));
      const std::size_t block = schedule == "unfused" ? n : (n + ranks - 1) / ranks;
      REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
        const Executable step =
            compile(program, shipped_schedule(shipped, schedule), world, {{"n", n}});
        for (const ir::Node& node : ir::graph_of(program)->nodes()) {
          if (node.op != ir::Op::state) continue;
          const std::size_t held = node.shape.empty() ? 1 : node.name == "w" ? n : block;
          REQUIRE_ON_RANK(step.allocated_bytes(node.name) == padded(held * size_of(node.dtype)));
        }
      }));
    }
  }
}

TEST_CASE("the library's own memory is zeroed, aligned, and the same at every call") {
  const World world = World::self();
  Executable step = compile(accumulate(1), Schedule(), world);
  const std::span<float> x = step.data<float>("x");
  REQUIRE(x.size() == 100);
  CHECK(std::all_of(x.begin(), x.end(), [](float value) { return value == 0; }));
  CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % padding == 0);
  CHECK(step.data<float>("x").data() == x.data());
}

TEST_CASE("a step works in the caller's memory, and in other memory after it is bound again") {
  const World world = World::self();
  Executable step = compile(accumulate(1), Schedule(), world, {{"n", 3}});
  std::vector<float> g = {1, 2, 3};
  std::vector<float> x = {10, 20, 30};
  std::vector<float> y(3);
  step.bind("g", g);
  step.bind("x", std::span<float>(x));
  step.bind("y", y);
  step.run({{"factor", 2}});
  CHECK(x == std::vector<float>{12, 24, 36});
  CHECK(y == std::vector<float>{10, 20, 30});

  std::vector<float> other = {0, 0, 1};
  step.bind("x", other);
  step.run({{"factor", 1}});
  CHECK(other == std::vector<float>{1, 2, 4});
  CHECK(x == std::vector<float>{12, 24, 36});

  CHECK(step.data<float>("x").data() == other.data());
  CHECK(step.data<float>("x").size() == 3);
}

TEST_CASE("buffers of the world serve kernels that reach them from other ranks") {
  for (const int ranks : {1, 2, 3}) {
    REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
      Executable step = compile_shipped(world, "sgd", "fused", 17);
      const Buffer g = world.allocate(f32, 17);
      Buffer w = world.allocate(f32, 17);
      step.bind("g", g);
      step.bind("w", w);
      for (std::size_t i = 0; i < 17; ++i) {
        g.as<float>()[i] = static_cast<float>(world.rank() + 1);
        w.as<float>()[i] = static_cast<float>(i);
      }
      step.run({{"lr", 1}});
      const float mean_gradient = static_cast<float>(world.size() + 1) / 2;
      for (std::size_t i = 0; i < 17; ++i) {
        REQUIRE_ON_RANK(w.as<float>()[i] == static_cast<float>(i) - mean_gradient);
      }
      // The executable keeps what it is bound to, and other memory takes its place.
      const Buffer second = world.allocate(f32, 17);
      step.bind("w", second);
      w = Buffer();
      step.run({{"lr", 1}});
      REQUIRE_ON_RANK(second.as<float>()[16] == -mean_gradient);
      world.barrier();
    }));
  }
}

TEST_CASE("user memory serves what no other rank reaches, beside the library's") {
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = compile_shipped(world, "momentum_sgd", "fused", 5);
    std::vector<float> m(step.count("m"), 0.0F);
    step.bind("m", m);
    for (float& g : step.data<float>("g")) g = 2;
    const std::span<float> w = step.data<float>("w");
    step.run({{"lr", 0.5}});
    for (const float value : m) REQUIRE_ON_RANK(value == 2);
    for (const float value : w) REQUIRE_ON_RANK(value == -1);
    world.barrier();
  }));
}

TEST_CASE("an executable can be moved") {
  const World world = World::self();
  Executable step = compile(accumulate(1), Schedule(), world, {{"n", 1}});
  step.data<float>("g")[0] = 1;
  const std::span<float> x = step.data<float>("x");
  Executable moved = std::move(step);
  moved.run({{"factor", 1}});
  moved = compile(accumulate(1), Schedule(), world, {{"n", 2}});
  CHECK(moved.count("x") == 2);
  CHECK(x.size() == 1);
}

TEST_CASE("an executable shows its program, its plan and its sources") {
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    const Executable step = compile_shipped(world, "adam", "fused", 8);
    REQUIRE_ON_RANK(step.program().str().find("adam_fused") != std::string::npos);
    REQUIRE_ON_RANK(step.plan().find("adam_fused") != std::string::npos);
    const auto sources = step.sources();
    REQUIRE_ON_RANK(sources.size() == 1);
    REQUIRE_ON_RANK(sources[0].first == "adam_fused");
    REQUIRE_ON_RANK(sources[0].second.starts_with("// kernel adam_fused of program adam"));
    REQUIRE_ON_RANK(sources[0].second.find("KERNEL_ENTRY(adam_fused_kernel)") != std::string::npos);
  }));
}

TEST_CASE("a report names every step in order with time, bytes and its share of the roofline") {
  for (const char* schedule : {"unfused", "sliced", "fused"}) {
    INFO(schedule);
    std::string shown;
    REQUIRE_NOTHROW(World::local(2, [&](World& world) {
      constexpr std::int64_t n = 1 << 16;
      Executable step = compile_shipped(world, "adam", schedule, n);
      for (const char* name : {"g", "w", "m", "v"}) (void)step.data<float>(name);
      for (int i = 1; i <= 5; ++i) step.run({{"lr", 1e-3}, {"t", i}});
      const Report report = step.report();
      REQUIRE_ON_RANK(report.runs == 5);
      REQUIRE_ON_RANK(report.ms > 0);
      double total = 0;
      std::set<std::string> kinds;
      for (const KernelReport& kernel : report.kernels) {
        REQUIRE_ON_RANK(!kernel.name.empty());
        REQUIRE_ON_RANK(kernel.ms > 0 && kernel.ms < 1e4);
        REQUIRE_ON_RANK(kernel.bytes > 0);
        REQUIRE_ON_RANK(kernel.roofline_share > 0 && kernel.roofline_share < 100);
        kinds.insert(kernel.kind);
        total += kernel.ms;
      }
      REQUIRE_ON_RANK(total < 10 * report.ms + 1);
      const bool fused = std::string(schedule) == "fused";
      REQUIRE_ON_RANK(report.kernels.size() == (fused                               ? 1U
                                                : std::string(schedule) == "sliced" ? 3U
                                                                                    : 2U));
      REQUIRE_ON_RANK(kinds == (fused ? std::set<std::string>{"all_reduce"}
                                      : std::set<std::string>{"computation", "library"}));
      // g from two ranks, w to two ranks, m, v and the slice of w read and written: half of 4 bytes
      // n times 2+2+2+2+1.
      if (fused) REQUIRE_ON_RANK(report.kernels[0].bytes == 9 * n / 2 * 4);
      REQUIRE_ON_RANK(report.kernels[0].exchange_bytes == 0);  // in place, without totals
      REQUIRE_ON_RANK(report.cache.miss + report.cache.hit_disk + report.cache.hit_memory > 0);
      if (world.rank() == 0) shown = report.str();
      (void)step.report();
    }));
    CHECK_THAT(shown, Catch::Matchers::Contains("roofline exchange bytes\n") &&
                          Catch::Matchers::Contains("median of 5 runs") &&
                          Catch::Matchers::Contains("kernel cache: "));
  }
}

namespace {

/// Sums a tensor [rows, columns] of ones and twos over two ranks and adds a row to each of them, in
/// a kernel whose stores to the other rank go past the caches.
template <class T>
void require_large_rows(std::int64_t rows, std::int64_t columns) {
  constexpr DType dtype = dtype_of<T>;
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Program program("rows", Mesh::over(world));
    const Value x = program.input("x", dtype, {rows, columns}, local);
    const Value total = all_reduce(x, sum).named("total");
    const Value bias = program.input("bias", dtype, {columns}, replicated);
    program.output("y", (total + bias).named("y"));
    Executable step =
        compile(program,
                Schedule()
                    .split("total")
                    .reorder("total.all_gather", {"y"})
                    .fuse("k", "all_reduce", {"total.reduce_scatter", "y.slice", "y.all_gather"}),
                world, {});
    const auto added = [](std::size_t column) { return static_cast<float>(column % 100); };
    std::ranges::fill(step.data<T>("x"), T(static_cast<float>(world.rank() + 1)));
    const std::span<T> row = step.data<T>("bias");
    for (std::size_t c = 0; c < row.size(); ++c) row[c] = T(added(c));
    step.run({});
    const std::span<const T> y = step.data<T>("y");
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float expected = 3.0F + added(i % static_cast<std::size_t>(columns));
      if (static_cast<float>(y[i]) != expected) REQUIRE_ON_RANK(i == y.size());
    }
  }));
}

}  // namespace

TEST_CASE("large rows that are stored past the caches are there after the step") {
  require_large_rows<float>(1200, 1024);
  require_large_rows<float>(1, (1 << 20) + 4097);
  require_large_rows<BFloat16>(1, (1 << 21) + 4097);
}

TEST_CASE("constant memory is bound to inputs only") {
  const World world = World::self();
  Executable step = compile(accumulate(1), Schedule(), world, {{"n", 4}});
  const std::vector<float> ones(4, 1.0f);
  step.bind("g", ones);
  std::vector<float> x(4, 2.0f);
  step.bind("x", x);
  step.run({{"factor", 3}});
  CHECK(x == std::vector<float>(4, 5.0f));
  CHECK(ones == std::vector<float>(4, 1.0f));
  CHECK_THROWS_WITH(step.bind("x", ones),
                    "'x' is written by the step, but bound to constant memory; bind memory that "
                    "may be written");
  CHECK_THROWS_WITH(step.bind("y", ones),
                    "'y' is written by the step, but bound to constant memory; bind memory that "
                    "may be written");
}

TEST_CASE("tensors must fit an address space") {
  const World world = World::self();
  for (const std::int64_t n :
       {std::int64_t{1} << 46, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()}) {
    CHECK_THROWS_WITH(compile(accumulate(1), Schedule(), world, {{"n", n}}),
                      "'g' has " + std::to_string(n) +
                          " elements of f32 on a rank, more than memory can hold; make its "
                          "dimensions smaller");
  }
}

TEST_CASE("names may hold anything and stay comments in a kernel") {
  Program program("odd \n#error \\", Mesh({{"world", 1}}));
  const Value x = program.input("x\ny\\", f32, {4}, replicated);
  program.output("z", (x * 2).named("twice\n#error \\"));
  const World world = World::self();
  Executable step = compile(program, Schedule(), world);
  std::vector<float> in(4, 3.0f);
  step.bind("x\ny\\", in);
  std::vector<float> out(4);
  step.bind("z", out);
  step.run();
  CHECK(out == std::vector<float>(4, 6.0f));
}
