// Optimizers and AllReduces of ranks that share a GPU, and AllReduces of GPUs behind a switch.
#include "gpu_ranks.h"

#include <memory>
#include <vector>

#include "coconet/coconet.h"
#include "gpu_steps.h"
#include "gpu_timing.h"
#include "jit/comm/access.h"
#include "jit/platform/cuda/driver.h"

namespace bench {

namespace {

/// Why `ranks` ranks with four executables each do not fit into what is free; empty when they do.
std::string too_large(const coconet::World& self, int ranks, std::size_t n) {
  const coconet::jit::OnDevice current(coconet::jit::device_of(coconet::jit::comm_of(self)));
  std::size_t free = 0;
  std::size_t total = 0;
  coconet::jit::check(coconet::jit::driver().memory_info(&free, &total), "asking for free memory");
  // g, w, m, v and up to two tensors in between.
  const double needed = 4.0 * 6.0 * 4.0 * static_cast<double>(ranks) * static_cast<double>(n);
  if (needed < 0.9 * static_cast<double>(free)) return {};
  return "it takes about " + decimals(needed / 1e9, 1) + " GB, and " +
         decimals(static_cast<double>(free) / 1e9, 1) + " GB of the GPU are free";
}

/// The sum of all ranks' `x` of n elements, put into the stopwatch's queue.
class SumStep : public Contestant {
 public:
  SumStep(const coconet::World& world, Stopwatch& watch, std::size_t n,
          const coconet::Schedule& schedule)
      : executable_(compile(world, n, schedule)) {
    if (world.rank() == 0) executable_.use_stream(watch.queue().handle());
    executable_.write("x", made_up(n, 1 + static_cast<std::uint32_t>(world.rank())));
    executable_.data<float>("y");
    step = [this] { executable_.run(); };
    wait = [this] { executable_.synchronize(); };
  }

 private:
  static coconet::Executable compile(const coconet::World& world, std::size_t n,
                                     const coconet::Schedule& schedule) {
    coconet::Program program("sum", coconet::Mesh::over(world));
    const coconet::Dim dim = program.dim("n");
    const coconet::Value x = program.input("x", coconet::f32, {dim}, coconet::local);
    program.output("y", coconet::all_reduce(x, coconet::sum).named("total"));
    return coconet::compile(program, schedule, world, {{"n", static_cast<std::int64_t>(n)}});
  }

  coconet::Executable executable_;
};

}  // namespace

void measure_ranks(const std::string& program, bool small, Table& table) {
  const coconet::World self = coconet::World::self();
  for (const int ranks : small ? std::vector{2} : std::vector{2, 4, 8}) {
    for (const int exponent : small ? std::vector{10, 12} : std::vector{20, 22, 24, 25}) {
      const std::string what =
          "fused " + program + ", " + std::to_string(ranks) + " ranks on one GPU";
      const std::size_t n = std::size_t{1} << exponent;
      if (const std::string why = too_large(self, ranks, n); !why.empty()) {
        table.add_not_measured(what, power_of_two(exponent), why);
        continue;
      }
      coconet::World::local(ranks, [&](coconet::World& world) {
        Stopwatch watch(coconet::jit::comm_of(world), backend_of(world));
        OptimizerStep fused(world, watch, program, n, "fused");
        OptimizerStep unfused(world, watch, program, n, "unfused");
        OptimizerStep sliced(world, watch, program, n, "sliced");
        constexpr std::size_t buffers = 64;
        const std::vector<std::int64_t> lengths(buffers, static_cast<std::int64_t>(n / buffers));
        OptimizerStep scattered(world, watch, program, n, "fused", {{"n", lengths}});
        watch.measure({&fused, &unfused, &sliced, &scattered}, small ? 1 : 10);
        if (world.rank() != 0) return;
        const auto add = [&](const char* name, const Contestant& other, bool aims) {
          const double ratio = other.ms / fused.ms;
          table.add(
              {.what = what,
               .size = power_of_two(exponent),
               .result = decimals(fused.ms * 1e3, 1) + " us",
               .peer = std::string(name) + ": " + decimals(other.ms * 1e3, 1) + " us",
               .ratio = ratio,
               .target = aims ? at_least(ratio, 1.5) : Target{},
               .numbers = {
                   {"ranks", ranks}, {"ms", fused.ms}, {"peer", name}, {"peer_ms", other.ms}}});
        };
        add("its unfused kernels", unfused, small || exponent >= 24);
        add("sliced", sliced, false);
        add("fused over 64 buffers", scattered, false);
      });
    }
  }
}

void measure_algorithms(bool small, Table& table) {
  for (const int ranks : small ? std::vector{2} : std::vector{2, 4, 8}) {
    for (const int exponent : small ? std::vector{10} : std::vector{10, 14, 18, 22}) {
      coconet::World::local(ranks, [&](coconet::World& world) {
        const std::size_t n = std::size_t{1} << exponent;
        Stopwatch watch(coconet::jit::comm_of(world), backend_of(world));
        SumStep library(world, watch, n, coconet::Schedule());
        std::vector<std::string> names;
        std::vector<std::unique_ptr<SumStep>> steps;
        for (const char* const algorithm : {"direct", "ring", "tree"}) {
          for (const char* const protocol : {"simple", "ll", "ll128"}) {
            coconet::Knobs knobs;
            knobs.algorithm = algorithm;
            knobs.protocol = protocol;
            names.push_back(std::string(algorithm) + " " + protocol);
            steps.push_back(std::make_unique<SumStep>(
                world, watch, n,
                coconet::Schedule("sum").fuse("sum", "all_reduce", {"total"}, knobs)));
          }
        }
        std::vector<Contestant*> contestants = {&library};
        for (const auto& step : steps) contestants.push_back(step.get());
        watch.measure(contestants, small ? 1 : 10);
        if (world.rank() != 0) return;
        for (std::size_t i = 0; i < steps.size(); ++i) {
          const double ratio = library.ms / steps[i]->ms;
          table.add({.what = "AllReduce, " + names[i] + ", " + std::to_string(ranks) +
                             " ranks on one GPU",
                     .size = power_of_two(exponent),
                     .result = decimals(steps[i]->ms * 1e3, 1) + " us",
                     .peer = "the library's: " + decimals(library.ms * 1e3, 1) + " us",
                     .ratio = ratio,
                     .numbers = {{"ranks", ranks},
                                 {"name", names[i]},
                                 {"ms", steps[i]->ms},
                                 {"peer_ms", library.ms}}});
        }
      });
    }
  }
}

void measure_multicast(bool small, Table& table) {
  using coconet::jit::Device;
  const int gpus = Device::count();
  const std::string what = "AllReduce, a rank a GPU, " + std::to_string(gpus) + " GPUs, ";
  if (gpus < 2 || !Device::at(0).multicasts()) {
    table.add_not_measured("AllReduce, a rank a GPU, multimem", "all",
                           gpus < 2 ? "there is one GPU" : "the GPUs have no multicast");
    return;
  }
  for (const int exponent : small ? std::vector{10} : std::vector{10, 14, 18, 22, 26}) {
    coconet::World::local(gpus, [&](coconet::World& world) {
      const std::size_t n = std::size_t{1} << exponent;
      Stopwatch watch(coconet::jit::comm_of(world), backend_of(world));
      SumStep library(world, watch, n, coconet::Schedule());
      const std::vector<std::string> names = {"direct", "multimem"};
      std::vector<std::unique_ptr<SumStep>> steps;
      std::vector<Contestant*> contestants = {&library};
      for (const std::string& name : names) {
        coconet::Knobs knobs;
        knobs.algorithm = name;
        steps.push_back(std::make_unique<SumStep>(
            world, watch, n, coconet::Schedule("sum").fuse("sum", "all_reduce", {"total"}, knobs)));
        contestants.push_back(steps.back().get());
      }
      watch.measure(contestants, small ? 1 : 10);
      if (world.rank() != 0) return;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        table.add({.what = what + names[i],
                   .size = power_of_two(exponent),
                   .result = decimals(steps[i]->ms * 1e3, 1) + " us",
                   .peer = "NCCL: " + decimals(library.ms * 1e3, 1) + " us",
                   .ratio = library.ms / steps[i]->ms,
                   .numbers = {{"ranks", gpus},
                               {"name", names[i]},
                               {"ms", steps[i]->ms},
                               {"peer_ms", library.ms}}});
      }
    });
  }
}

}  // namespace bench
