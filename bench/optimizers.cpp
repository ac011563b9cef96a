// Times a data-parallel step of every shipped optimizer, and of Adam in mixed precision, each as
// the one kernel of its fused schedule, against what an application writes with MPI_Allreduce and
// vectorized loops (the peer), which must compute the same weights, and against a copy of as many
// bytes (the floor). AdamW with options is timed against AdamW without.
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "copy.h"
#include "fused_optimizer.h"
#include "lamb_peer.h"
#include "mixed_peer.h"
#include "optimizer_peers.h"
#include "rows.h"
#include "timing.h"
#include "training_options.h"
#include "verify.h"

namespace {

using bench::FusedOptimizer;
using bench::Optimizer;
using bench::Rows;
using coconet::Program;
using coconet::World;

/// Peers, and then the fused kernel, that begin with the same gradient and weights.
template <class Model>
class Contest {
 public:
  Contest(const World& world, std::size_t n, float allowed)
      : w_(n, Model(bench::first_weight)), allowed_(allowed) {
    for (const float value : bench::make_gradient(n, world.rank()))
      g_.push_back(static_cast<Model>(value));
  }

  /// Verifies the weights after so many `steps` against those of who entered before.
  template <class Step>
  void enter(const char* name, Step& step, std::initializer_list<int> steps,
             int most_steps = 4096) {
    // Two long steps are a sample; those that warm up need not be 16.
    constexpr std::size_t is_long = std::size_t{1} << 22;
    if (w_.size() >= is_long) most_steps = 4;
    contestants_.push_back({.name = name,
                            .begin = [this, &step] { step.begin(g_, w_); },
                            .step = [&step](int t) { step.step(t); },
                            .most_steps = most_steps});
    for (const int count : steps)
      bench::verify(contestants_.back(), step.weights(), count, expected_[count], allowed_);
  }

  /// The row `name`, once the peers and `fused` have entered.
  void measure(const std::string& name, FusedOptimizer<Model>& fused, Rows& rows) {
    const bench::Copy copy(fused.bytes());
    // The faster one is the floor: memcpy of some machines reads what it overwrites.
    const int most_steps = contestants_.front().most_steps;
    contestants_.push_back(
        {.name = "copy", .step = [&](int) { copy.step(); }, .most_steps = most_steps});
    contestants_.push_back(
        {.name = "copy, streaming", .step = [&](int) { copy.stream(); }, .most_steps = most_steps});
    bench::measure(contestants_);
    rows.add({.name = name,
              .n = w_.size(),
              .ms = bench::fastest(contestants_, {"fused"}),
              .peer_ms = bench::fastest(
                  contestants_, {"peer", "peer, in place", "peer, widened", "peer, 16 bits"}),
              .floor_ms = bench::fastest(contestants_, {"copy", "copy, streaming"})});
  }

 private:
  std::vector<Model> g_, w_;
  float allowed_;
  std::map<int, std::vector<float>> expected_;  ///< by steps
  std::vector<bench::Contestant> contestants_;
};

/// A row of the table: an optimizer in f32 and what measures it beside its peer.
struct Entry {
  Optimizer optimizer;
  void (*measure)(const World& world, const Entry& entry, std::size_t n, Rows& rows);
  bool amsgrad = false;
};

template <class Peer>
void measure(const World& world, const Entry& entry, std::size_t n, Rows& rows) {
  Contest<float> contest(world, n, 1e-6f);
  // 7 steps, because RAdam leaves `v` out of the first five.
  Peer peer(n, world.size(), false), in_place(n, world.size(), true);
  contest.enter("peer", peer, {1, 3, 7});
  // Its gradient is another one after the first step.
  contest.enter("peer, in place", in_place, {1}, Peer::most_steps);
  const auto mesh = coconet::Mesh::over(world);
  const Program program =
      entry.amsgrad ? coconet::programs::adam(mesh, coconet::f32, {.amsgrad = true})
                    : coconet::programs::find(entry.optimizer.program)->build(mesh, coconet::f32);
  FusedOptimizer<float> fused(world, entry.optimizer, program, {static_cast<std::int64_t>(n)},
                              Peer::lr);
  contest.enter("fused", fused, {1, 3, 7});
  contest.measure(entry.optimizer.program + (entry.amsgrad ? ", amsgrad" : ""), fused, rows);
}

template <class Rule>
constexpr auto by_rule = &measure<bench::Peer<Rule>>;

const std::vector<Entry>& entries() {
  using namespace bench::rules;
  static const std::vector<Entry> table = {
      {{"sgd", {}, false}, by_rule<Sgd>},
      {{"momentum_sgd", {"m"}, false}, by_rule<MomentumSgd>},
      {{"adam", {"m", "v"}}, by_rule<Adam>},
      {{"adam", {"m", "v", "v_max"}}, by_rule<AmsGrad>, true},
      {{"adamw", {"m", "v"}}, by_rule<AdamW>},
      {{"adamax", {"m", "u"}}, by_rule<Adamax>},
      {{"nadam", {"m", "v"}}, by_rule<NAdam>},
      {{"radam", {"m", "v"}}, by_rule<RAdam>},
      {{"adagrad", {"v"}, false}, by_rule<Adagrad>},
      {{"adadelta", {"v", "d"}, false}, by_rule<Adadelta>},
      {{"rmsprop", {"v"}, false}, by_rule<RmsProp>},
      {{"rprop", {"previous", "step_size"}}, by_rule<Rprop>},
      {{"lion", {"m"}, false}, by_rule<Lion>},
      {{"lamb", {"m", "v"}}, &measure<bench::LambPeer>},
      {{"lars", {"m"}, false}, by_rule<Lars>},
      {{"novograd", {"m", "v"}}, by_rule<NovoGrad>},
  };
  return table;
}

template <class Model>
void measure_mixed(const World& world, std::size_t n, Rows& rows) {
  const coconet::DType dtype = coconet::dtype_of<Model>;
  const float allowed = dtype == coconet::f16 ? 0x1p-11f : 0x1p-8f;  // a unit in the last place
  Contest<Model> contest(world, n, allowed);
  bench::MixedPeer<Model> widened(n, world.size(), bench::Sum::widened);
  bench::MixedPeer<Model> by_op(n, world.size(), bench::Sum::by_op);
  contest.enter("peer, widened", widened, {3});
  contest.enter("peer, 16 bits", by_op, {3});
  const Optimizer optimizer{"adam", {"m", "v", "master"}};
  const Program program =
      coconet::programs::adam(coconet::Mesh::over(world), coconet::programs::mixed(dtype));
  FusedOptimizer<Model> fused(world, optimizer, program, {static_cast<std::int64_t>(n)},
                              bench::learning_rate);
  contest.enter("fused", fused, {3});
  contest.measure("adam mixed " + std::string(coconet::to_string(dtype)), fused, rows);
}

void run(const bench::Options& options) {
  const World world = World::mpi();
  Rows rows("optimizers", world.size(), world.rank() == 0, options.json);
  constexpr int most = 24;
  for (const int exponent :
       options.quick ? std::vector{12, 18, most} : std::vector{10, 12, 14, 16, 18, 20, 22, most}) {
    const std::size_t n = std::size_t{1} << exponent;
    for (const Entry& entry : entries()) entry.measure(world, entry, n, rows);
    measure_mixed<coconet::Half>(world, n, rows);
    measure_mixed<coconet::BFloat16>(world, n, rows);
  }
  bench::measure_all_options(world, std::int64_t{1} << most, rows);
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
