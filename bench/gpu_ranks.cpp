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

/// AllReduces of 2^`exponent` elements in kernels of all `knobs`, named by them, beside that of the
/// library, `peer`.
template <class What>
void measure_sums(int ranks, int exponent, const std::vector<coconet::Knobs>& knobs,
                  const char* peer, bool small, Table& table, const What& what) {
  coconet::World::local(ranks, [&](coconet::World& world) {
    const std::size_t n = std::size_t{1} << exponent;
    Stopwatch watch(coconet::jit::comm_of(world), backend_of(world));
    SumStep library(world, watch, n, coconet::Schedule());
    std::vector<std::unique_ptr<SumStep>> steps;
    std::vector<Contestant*> contestants = {&library};
    for (const coconet::Knobs& of : knobs) {
      steps.push_back(std::make_unique<SumStep>(
          world, watch, n, coconet::Schedule("sum").fuse("sum", "all_reduce", {"total"}, of)));
      contestants.push_back(steps.back().get());
    }
    watch.measure(contestants, small ? 1 : 10);
    if (world.rank() != 0) return;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string name =
          knobs[i].algorithm + (knobs[i].protocol.empty() ? "" : " " + knobs[i].protocol);
      table.add(beside(what(name), power_of_two(exponent), steps[i]->ms, peer, library.ms,
                       {{"ranks", ranks}, {"name", name}}));
    }
  });
}

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
          Row row = beside(what, power_of_two(exponent), fused.ms, name, other.ms,
                           {{"ranks", ranks}, {"peer", name}});
          if (aims) row.target = at_least(row.ratio, 1.5);
          table.add(row);
        };
        add("its unfused kernels", unfused, small || exponent >= 24);
        add("sliced", sliced, false);
        add("fused over 64 buffers", scattered, false);
      });
    }
  }
}

void measure_algorithms(bool small, Table& table) {
  std::vector<coconet::Knobs> knobs;
  for (const char* const algorithm : {"direct", "ring", "tree"}) {
    for (const char* const protocol : {"simple", "ll", "ll128"})
      knobs.push_back({.algorithm = algorithm, .protocol = protocol});
  }
  for (const int ranks : small ? std::vector{2} : std::vector{2, 4, 8}) {
    const std::string where = ", " + std::to_string(ranks) + " ranks on one GPU";
    for (const int exponent : small ? std::vector{10} : std::vector{10, 14, 18, 22}) {
      measure_sums(ranks, exponent, knobs, "the library's", small, table,
                   [&](const std::string& name) { return "AllReduce, " + name + where; });
    }
  }
}

void measure_multicast(bool small, Table& table) {
  using coconet::jit::Device;
  const int gpus = Device::count();
  if (gpus < 2 || !Device::at(0).multicasts()) {
    table.add_not_measured("AllReduce, a rank a GPU, multimem", "all",
                           gpus < 2 ? "there is one GPU" : "the GPUs have no multicast");
    return;
  }
  const std::string what = "AllReduce, a rank a GPU, " + std::to_string(gpus) + " GPUs, ";
  for (const int exponent : small ? std::vector{10} : std::vector{10, 14, 18, 22, 26}) {
    measure_sums(gpus, exponent, {{"direct", ""}, {"multimem", ""}}, "NCCL", small, table,
                 [&](const std::string& name) { return what + name; });
  }
}

}  // namespace bench
