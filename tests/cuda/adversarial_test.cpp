// A GPU at its worst: blocks need room, cooperative launches run one by one, streams begin only
// when somebody waits, and what is ready starts in an order drawn from a seed, another one on each
// GPU. No step may hang, and results stay right.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "cli/check.h"
#include "coconet/coconet.h"
#include "cuda/own_nccl.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "cuda/subjects.h"
#include "elements.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "jit/platform/cuda/device.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// The emulated GPUs at their worst, for as long as it lives. A kernel of 256 threads has two
/// blocks on each of 8 multiprocessors.
struct Adversary {
  Adversary(int gpus, int seed)
      : devices("STUB_CUDA_DEVICES", std::to_string(gpus).c_str()),
        drawn("STUB_CUDA_SEED", std::to_string(seed).c_str()) {}
  Setting devices, drawn;
  Setting room{"STUB_CUDA_ROOM", "1"};
  Setting cooperative{"STUB_CUDA_COOPERATIVE", "1"};
  Setting lazy{"STUB_CUDA_LAZY_MS", "20"};
  Setting processors{"STUB_CUDA_SMS", "8"};
  Setting registers{"STUB_CUDA_REGISTERS", "128"};
};

/// Enough elements to fill a GPU.
constexpr std::int64_t many = 40001;

/// An executable between others, driven step by step.
class Driven {
 public:
  Driven(const Program& program, const Schedule& schedule, const World& world)
      : program_(program),
        sizes_(sizes_of(program, many)),
        step_(compile(program, schedule, world, sizes_)) {
    options_.drive.fresh_inputs = false;
    options_.drive.iterations = 1;
    (void)cli::drive(step_, world, sizes_, options_.drive);
  }
  /// Leaves the step to the GPU.
  void run() {
    ++options_.drive.iterations;
    std::vector<ScalarValue> scalars;
    for (const ir::Node& node : ir::graph_of(program_)->nodes()) {
      if (node.op == ir::Op::scalar)
        scalars.push_back({node.name, cli::default_scalar(node.name, options_.drive.iterations)});
    }
    step_.run(scalars);
  }
  void use_stream(void* stream) { step_.use_stream(stream); }
  void synchronize() { step_.synchronize(); }
  /// Collective: what is wrong with the results; empty when nothing is.
  [[nodiscard]] std::string compare(const World& world) {
    return cli::compare(step_, program_, world, sizes_, options_).failure;
  }

 private:
  Program program_;
  Sizes sizes_;
  Executable step_;
  cli::CheckOptions options_;
};

/// Runs two executables at once on every rank, graphs included, and waits for them in another order
/// on every second rank. What went wrong.
std::string run_two(const Subject& first, const Subject& second, int ranks, int seed) {
  std::string wrong;
  World::local(ranks, [&](World& world) {
    Driven one(first.build(ranks), first.load(), world);
    Driven other(second.build(ranks), second.load(), world);
    std::mt19937 order(static_cast<unsigned>(seed));
    for (int run = 0; run < 24; ++run) (order() % 2 == 0 ? one : other).run();
    (world.rank() % 2 == 0 ? one : other).synchronize();
    const std::string told = one.compare(world) + other.compare(world);
    if (world.rank() == 0) wrong = told;
  });
  return wrong;
}

/// Steps of an executable and collectives of the application at once, in one stream or two. What
/// went wrong.
std::string run_beside_nccl(bool in_one_stream) {
  const OwnNccl::Id id = OwnNccl::make_id();
  std::string wrong;
  World::local(2, [&](World& world) {
    const programs::Shipped& adam = *programs::find("adam");
    Executable memory = scale(world, 1000);
    memory.write("x", std::vector<float>(1000, 1.0f));
    memory.synchronize();
    const jit::OnDevice current(jit::Device::at(world.rank()));
    OwnNccl nccl(world, id);
    const stub_cuda::OwnStream stream;
    Driven step(adam.build(Mesh::over(world), f32), Schedule::load("adam-fused.json"), world);
    if (in_one_stream) step.use_stream(stream.get());
    for (int run = 0; run < 12; ++run) {
      step.run();
      nccl.all_reduce(memory.data<float>("x"), stream.get());
    }
    if (world.rank() == 0) (void)stream.synchronize();
    const std::string told = step.compare(world);
    if (stream.synchronize() != 0) throw InternalError("NCCL failed");
    step.use_stream(nullptr);
    step.synchronize();
    if (elements_of(memory, "x") != std::vector<float>(1000, 4096.0f))
      throw InternalError("NCCL added wrongly");
    if (world.rank() == 0) wrong = told;
  });
  return wrong;
}

}  // namespace

TEST_CASE("the application's own NCCL may be in the executable's stream") {
  const Adversary adversary(2, 2);
  CHECK(run_beside_nccl(true) == "");
}

TEST_CASE("the application's own NCCL runs beside kernels that leave it room") {
  if (config().free_multiprocessors == 0) return;  // cuda/beside_nccl sets it
  for (int drawn = 1; drawn <= 4; ++drawn) {
    INFO("seed " << drawn);
    const Adversary adversary(2, drawn);
    CHECK(run_beside_nccl(false) == "");
  }
}

TEST_CASE("two executables at once neither hang nor go wrong, whatever starts first") {
  const std::vector<Subject> subjects = all_subjects();
  const auto seeds = static_cast<int>(share_of(200));
  const int first_seed = one_in() == 1 ? 1 : 1 + static_cast<int>(seed() % 1000);
  for (int drawn = first_seed; drawn < first_seed + seeds; ++drawn) {
    std::mt19937 draw(static_cast<unsigned>(drawn));
    const Subject& one = subjects.at(static_cast<std::size_t>(drawn) % subjects.size());
    const Subject& other = subjects.at(draw() % subjects.size());
    const bool has_stages = one.program->stages > 1 || other.program->stages > 1;
    const int ranks = has_stages ? 2 : 2 + static_cast<int>(draw() % 2);
    // NCCL wants a GPU for each rank; where they share one, the library's own kernels do its work.
    const int gpus = draw() % 4 == 0 ? 1 : ranks;
    INFO("seed " << drawn << ": " << one.program->name << "-" << one.schedule << " and "
                 << other.program->name << "-" << other.schedule << " on " << ranks << " ranks and "
                 << gpus << " GPUs");
    const Adversary adversary(gpus, drawn);
    CHECK(run_two(one, other, ranks, drawn) == "");
  }
}

TEST_CASE("two kernels that each fill all GPUs come to them in one order") {
  const programs::Shipped* const adam = programs::find("adam");
  for (int drawn = 1; drawn <= 4; ++drawn) {
    INFO("seed " << drawn);
    const Adversary adversary(2, drawn);
    CHECK(run_two({adam, "fused"}, {adam, "fused"}, 2, 1) == "");
  }
}

TEST_CASE(
    "no launch that waits for room comes between a product and the kernel that takes its tiles") {
  // All ranks on one GPU, where nothing passes a launch that waits.
  const Adversary adversary(1, 117);
  CHECK(run_two({programs::find("mlp_block"), "overlapped"},
                {programs::find("attention_block"), "fused"}, 2, 117) == "");
}

TEST_CASE("kernels of an overlap that wait for each other run on a GPU that starts either first") {
  for (int drawn = 1; drawn <= 6; ++drawn) {
    INFO("seed " << drawn);
    const Adversary adversary(2, drawn);
    std::string wrong;
    REQUIRE_NOTHROW(World::local(2, [&](World& world) {
      Program p("chain", Mesh::over(world));
      const Dim n = p.dim("S");
      const Value x = p.input("x", f32, {n, 33}, sliced(1));
      const Value g = p.input("g", f32, {n, 33}, local);
      const Value whole = all_gather((x * 2).named("twice")).named("whole");
      p.output("y", broadcast((whole + g).named("more"), 1).named("y"));
      Knobs knobs;
      knobs.chunk_bytes = 1024;
      const Schedule schedule = Schedule("chain")
                                    .fuse("gathers", "all_gather", {"twice", "whole"}, knobs)
                                    .fuse("spreads", "broadcast", {"more", "y"}, knobs)
                                    .overlap({"gathers", "spreads"});
      Driven step(p, schedule, world);
      for (int run = 0; run < 12; ++run) step.run();
      const std::string told = step.compare(world);
      if (world.rank() == 0) wrong = told;
    }));
    CHECK(wrong == "");
  }
}
