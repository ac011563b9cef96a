// Times a data-parallel step of LAMB, and of Adam in mixed precision, each as the one kernel of its
// fused schedule, against what an application writes with MPI_Allreduce and vectorized loops. Both
// must compute the same weights.
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "lamb_peer.h"
#include "mixed_peer.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace {

/// A shipped optimizer, whose gradient and weights are of Model, in the executable's own memory.
template <class Model>
class Fused {
 public:
  Fused(const coconet::World& world, const std::string& program, std::size_t n)
      : world_(world),
        step_(coconet::compile(coconet::programs::find(program)->build(coconet::Mesh::over(world),
                                                                       coconet::dtype_of<Model>),
                               coconet::Schedule::load(program + "-fused.json"), world,
                               {{"n", static_cast<std::int64_t>(n)}})),
        mixed_(sizeof(Model) < sizeof(float)) {}

  void begin(const std::vector<Model>& g, const std::vector<Model>& w) {
    std::ranges::copy(g, step_.data<Model>("g").begin());
    std::ranges::copy(w, step_.data<Model>("w").begin());
    for (const char* name : {"m", "v"}) std::ranges::fill(step_.data<float>(name), 0.0f);
    if (mixed_) std::ranges::fill(step_.data<float>("master"), bench::first_weight);
    world_.barrier();
  }
  void step(int t) { step_.run({{"lr", bench::learning_rate}, {"t", t}}); }
  [[nodiscard]] std::span<const Model> weights() { return step_.data<Model>("w"); }

 private:
  const coconet::World& world_;
  coconet::Executable step_;
  bool mixed_;
};

/// A contestant that begins with `g` and `w`, verified against the first one.
template <class Optimizer, class Model>
void enter(std::vector<bench::Contestant>& contestants, const char* name, Optimizer& optimizer,
           const std::vector<Model>& g, const std::vector<Model>& w, int steps,
           std::vector<float>& expected, float allowed) {
  contestants.push_back({.name = name,
                         .begin = [&] { optimizer.begin(g, w); },
                         .step = [&](int t) { optimizer.step(t); }});
  bench::verify(contestants.back(), optimizer.weights(), steps, expected, allowed);
}

void measure_lamb(const coconet::World& world, std::size_t n, bench::Rows& rows) {
  const std::vector<float> g = bench::make_gradient(n, world.rank());
  const std::vector<float> w(n, bench::first_weight);
  constexpr float allowed = 1e-6f;
  std::vector<bench::Contestant> contestants;
  std::vector<float> after_one, after_three;
  bench::LambPeer peer(n, world.size(), false);
  enter(contestants, "peer", peer, g, w, 3, after_three, allowed);
  bench::verify(contestants.back(), peer.weights(), 1, after_one, allowed);
  // Its gradient is gone after the first step.
  bench::LambPeer in_place(n, world.size(), true);
  enter(contestants, "peer, in place", in_place, g, w, 1, after_one, allowed);
  Fused<float> fused(world, "lamb", n);
  enter(contestants, "fused", fused, g, w, 3, after_three, allowed);

  bench::measure(contestants);
  rows.add({.name = "lamb",
            .n = n,
            .ms = bench::fastest(contestants, {"fused"}),
            .peer_ms = bench::fastest(contestants, {"peer", "peer, in place"})});
}

template <class Model>
void measure_mixed(const coconet::World& world, std::size_t n, bench::Rows& rows) {
  std::vector<Model> g;
  for (const float value : bench::make_gradient(n, world.rank()))
    g.emplace_back(static_cast<double>(value));
  const std::vector<Model> w(n, Model(bench::first_weight));
  const coconet::DType dtype = coconet::dtype_of<Model>;
  const float allowed = dtype == coconet::f16 ? 0x1p-11f : 0x1p-8f;  // a unit in the last place
  std::vector<bench::Contestant> contestants;
  std::vector<float> expected;
  bench::MixedPeer<Model> widened(n, world.size(), bench::Sum::widened);
  enter(contestants, "peer, widened", widened, g, w, 3, expected, allowed);
  bench::MixedPeer<Model> by_op(n, world.size(), bench::Sum::by_op);
  enter(contestants, "peer, 16 bits", by_op, g, w, 3, expected, allowed);
  Fused<Model> fused(world, "adam_mixed", n);
  enter(contestants, "fused", fused, g, w, 3, expected, allowed);

  bench::measure(contestants);
  rows.add({.name = "adam_mixed " + std::string(coconet::to_string(dtype)),
            .n = n,
            .ms = bench::fastest(contestants, {"fused"}),
            .peer_ms = bench::fastest(contestants, {"peer, widened", "peer, 16 bits"})});
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  bench::Rows rows("optimizers", world.size(), world.rank() == 0, options.json);
  for (const int exponent :
       options.quick ? std::vector{12, 18, 24} : std::vector{10, 12, 14, 16, 18, 20, 22, 24}) {
    const std::size_t n = std::size_t{1} << exponent;
    measure_lamb(world, n, rows);
    measure_mixed<coconet::Half>(world, n, rows);
    measure_mixed<coconet::BFloat16>(world, n, rows);
  }
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
