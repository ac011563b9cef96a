// Gradients of several micro-batches: their sums, and the steps that take them.
#include <limits>
#include <vector>

#include "elements.h"
#include "ir/access.h"
#include "jit/comm/require_on_rank.h"
#include "jit/conformance/conformance_batch.h"
#include "jit/conformance/shipped_conformance.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;
using programs::Precision;
using programs::Storage;

namespace {

constexpr int ranks = 3, microbatches = 4, steps = 2;
const std::vector<std::int64_t> list = {1, 700, 4, 296};
constexpr std::size_t n = 1001;

using Floats = std::vector<float>;

/// Multiples of 2^-6 in [-1, 1), which bf16 holds, and of which f32 holds all sums.
Floats gradient(int rank, int step, int microbatch) {
  Floats elements(n);
  const auto place = static_cast<std::uint32_t>((rank * 7 + step) * 5 + microbatch);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t hash = (static_cast<std::uint32_t>(i) * 97 + place) * 2654435761U;
    elements[i] = static_cast<float>(static_cast<int>(hash >> 20 & 127) - 64) / 64;
  }
  return elements;
}

Floats sum_of_gradients(int rank, int step) {
  Floats sums(n);
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    const Floats one = gradient(rank, step, microbatch);
    for (std::size_t i = 0; i < n; ++i) sums[i] += one[i];
  }
  return sums;
}

Floats initial() {
  Floats elements = gradient(9, 9, 9);
  for (float& one : elements) one += 1.5F;
  return elements;
}

/// `elements` in `dtype`, as the tensor `name` of this rank.
void write_as(DType dtype, Executable& step, std::string_view name, const Floats& elements) {
  std::vector<std::byte> narrow(elements.size() * size_of(dtype));
  for (std::size_t i = 0; i < elements.size(); ++i)
    store_element(dtype, narrow.data(), i, static_cast<double>(elements[i]));
  step.write(name, dtype, narrow.data(), elements.size());
}

Executable compile_for(const World& world, const Program& program, const Schedule& schedule,
                       Storage storage) {
  if (storage == Storage::scattered) return compile(program, schedule, world, {}, {{"n", list}});
  return compile(program, schedule, world, {{"n", static_cast<std::int64_t>(n)}});
}

/// Runs the step number `t` of an optimizer; those without `t` or `microbatches` get none.
void run_step(Executable& step, int t) {
  const Program program = step.program();
  const ir::Graph& graph = *ir::graph_of(program);
  std::vector<ScalarValue> scalars = {{"lr", 0.01}};
  if (graph.find("t") >= 0) scalars.emplace_back("t", t);
  if (graph.find("microbatches") >= 0) scalars.emplace_back("microbatches", microbatches);
  step.run(scalars);
}

/// Parameters in f32 after steps with the means of the micro-batches' gradients.
Floats after_means(World& world, std::string_view optimizer, std::string_view schedule,
                   Storage storage) {
  const programs::Shipped& shipped = *programs::find(optimizer);
  Executable step = compile_for(world, shipped.with(Mesh::over(world), f32, {}, storage, {}),
                                shipped_schedule(shipped, schedule), storage);
  step.write_whole("w", initial());
  for (int t = 1; t <= steps; ++t) {
    Floats mean = sum_of_gradients(world.rank(), t);
    for (float& one : mean) one /= microbatches;
    step.write("g", mean);
    run_step(step, t);
  }
  return whole_of(step, "w");
}

/// The parameters, in mixed precision their master copy, after steps of which each adds up
/// micro-batches. The sum holds NaN before the first of them.
Floats after_sums(World& world, const programs::Shipped& shipped, Precision precision,
                  std::string_view schedule, Storage storage) {
  const Program program =
      shipped.with(Mesh::over(world), precision, {.accumulation = true}, storage, {});
  Executable step = compile_for(world, program, shipped_schedule(shipped, schedule), storage);
  Executable adding = compile_for(
      world, programs::accumulate(Mesh::over(world), precision, storage), Schedule(), storage);
  adding.share_states(step);
  step.write_whole(precision.mixed() ? "master" : "w", initial());
  step.write("g", Floats(n, std::numeric_limits<float>::quiet_NaN()));
  for (int t = 1; t <= steps; ++t) {
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      write_as(precision.model, adding, "gradient", gradient(world.rank(), t, microbatch));
      adding.run({{"first", microbatch == 0 ? 1 : 0}});
    }
    run_step(step, t);
  }
  return whole_of(step, precision.mixed() ? "master" : "w");
}

}  // namespace

TEST_CASE("a step of micro-batches is the step of their mean, bit by bit") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with == nullptr) continue;
    for (const Storage storage : {Storage::whole, Storage::scattered}) {
      for (const std::string_view schedule : shipped.schedules) {
        for (const Precision& precision : {Precision(f32), programs::mixed(bf16)}) {
          if (!draw()) continue;
          INFO(shipped.name << ", " << schedule << ", " << to_text(precision)
                            << ", scattered: " << (storage != Storage::whole));
          REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
            const Floats expected = after_means(world, shipped.name, schedule, storage);
            const Floats got = after_sums(world, shipped, precision, schedule, storage);
            REQUIRE_ON_RANK(got == expected);
          }));
        }
      }
    }
  }
}

TEST_CASE("what adds a micro-batch equals the reference, in one kernel with no schedule") {
  ConformanceBatch batch;
  for (const Storage storage : {Storage::whole, Storage::scattered}) {
    for (const Precision precision :
         {Precision(f32), Precision(f64), Precision(f16), programs::mixed(bf16)}) {
      for (const int size : {1, 3}) {
        const Program program = programs::accumulate(Mesh({{"world", size}}), precision, storage);
        CHECK(sched::lower(*ir::graph_of(program)).steps.size() == 1);
        for (const double first : {0, 1}) {
          Checked checked = check_of({{"n", static_cast<std::int64_t>(n)}}, 2);
          checked.options.drive.scalars = {{"first", first}};
          if (storage == Storage::scattered) checked.options.lists = {{"n", list}};
          batch.add(program, Schedule(), {checked});
        }
      }
    }
  }
  batch.require();
}

TEST_CASE("programs of sums are called by their storage, and need no other") {
  const Mesh mesh({{"world", 2}});
  CHECK(programs::accumulate(mesh).name() == "accumulate");
  const Program program = programs::accumulate(mesh, programs::mixed(f16), Storage::scattered);
  CHECK(program.name() == "accumulate_scattered");
  const ir::Graph& graph = *ir::graph_of(program);
  CHECK(graph.at(graph.find("gradient")).dtype == f16);
  CHECK(graph.at(graph.find("g")).dtype == f32);
}

TEST_CASE("a sum that overflows skips the step of all ranks") {
  World::local(ranks, [](World& world) {
    const programs::SgdOptions options = {.loss_scaling = true, .accumulation = true};
    Executable step = compile(programs::sgd(Mesh::over(world), programs::mixed(f16), options),
                              Schedule::load("sgd-fused.json"), world, {{"n", 8}});
    Executable adding = compile(programs::accumulate(Mesh::over(world), programs::mixed(f16)),
                                Schedule(), world, {{"n", 8}});
    adding.share_states(step);
    const auto run = [&](float first, float second) {
      for (const float one : {first, second}) {
        write_as(f16, adding, "gradient", Floats(8, one));
        adding.run({{"first", one == first ? 1 : 0}});
      }
      step.run({{"lr", 1}, {"microbatches", 2}});
      return whole_of(step, "master");
    };
    // 65536 times 0.25 and 0.75, of which the mean is 0.5.
    REQUIRE_ON_RANK(run(16384, 49152) == Floats(8, -0.5F));
    const float last = world.rank() == 1 ? std::numeric_limits<float>::infinity() : 1;
    REQUIRE_ON_RANK(run(2, last) == Floats(8, -0.5F));
    REQUIRE_ON_RANK(step.scalar_of<float>("scale") == 32768);
    REQUIRE_ON_RANK(run(8192, 24576) == Floats(8, -1));  // of the halved scale
  });
}
