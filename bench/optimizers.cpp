// Times a data-parallel step of every shipped optimizer, and of Adam in mixed precision, each as
// the one kernel of its fused schedule, against what an application writes with MPI_Allreduce and
// vectorized loops (the peer), which must compute the same weights, and against a copy of as many
// bytes (the floor); and as `compile` schedules it when it is told nothing, and step for step as
// the peer does it, against the fastest of the schedules that ship. AdamW with options is timed
// against AdamW without.
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "copy.h"
#include "optimizer_step.h"
#include "peers.h"
#include "rows.h"
#include "timing.h"
#include "training_options.h"
#include "verify.h"

namespace {

using bench::Optimizer;
using bench::OptimizerStep;
using bench::Peers;
using bench::Rows;
using coconet::Program;
using coconet::World;

/// Peers, and then this library's steps, the fused kernel first, that begin with the same gradient
/// and weights.
template <class Model>
class Contest {
 public:
  Contest(const World& world, std::size_t n, float allowed)
      : w_(n, Model(bench::first_weight)), allowed_(allowed) {
    for (const float value : bench::make_gradient(n, world.rank()))
      g_.push_back(static_cast<Model>(value));
  }

  /// The peers called `step`. Verifies the weights after so many `counts` of steps, as below.
  void enter(Peers& peers, const std::string& step, std::initializer_list<int> counts) {
    peers.enter(contestants_, step, w_.size(), [&](const auto& peer, const auto& weights) {
      for (const int count : counts)
        bench::verify(peer, weights, count, expected_[count], allowed_);
    });
  }
  /// Compiles `program`, which is `optimizer`, under the schedule of that name. Verifies the
  /// weights after so many `counts` of steps against those of who entered before.
  void enter(const World& world, const Optimizer& optimizer, const Program& program,
             const std::string& schedule, double lr, std::initializer_list<int> counts) {
    auto& own = *steps_.emplace_back(std::make_unique<OptimizerStep<Model>>(
        world, optimizer, program, schedule, std::vector{static_cast<std::int64_t>(w_.size())},
        lr));
    // One memory: where pages lie can make more between equal kernels than schedules do.
    if (&own != steps_.front().get()) {
      own.executable().bind("g", gradient_);
      if (schedule == "automatic") own.executable().share_states(steps_.front()->executable());
    } else {
      gradient_ = world.allocate(coconet::dtype_of<Model>, w_.size());
      own.executable().bind("g", gradient_);
    }
    contestants_.push_back({.name = schedule,
                            .begin = [this, &own] { own.begin(g_, w_); },
                            .step = [&own](int t) { own.step(t); }});
    for (const int count : counts)
      bench::verify(contestants_.back(), own.weights(), count, expected_[count], allowed_);
  }

  /// The rows of `name`, once all have entered.
  void measure(const std::string& name, Rows& rows) {
    const bench::Copy copy(steps_.front()->bytes());
    // The faster one is the floor: memcpy of some machines reads what it overwrites.
    contestants_.push_back({.name = "copy", .step = [&](int) { copy.step(); }});
    contestants_.push_back({.name = "copy, streaming", .step = [&](int) { copy.stream(); }});
    // Two long steps are a sample; those that warm up need not be 16.
    constexpr std::size_t is_long = std::size_t{1} << 22;
    for (bench::Contestant& contestant : contestants_) {
      if (w_.size() >= is_long) contestant.most_steps = 4;
    }
    bench::measure(contestants_);
    bench::Row row{.name = name,
                   .n = w_.size(),
                   .ms = bench::fastest(contestants_, {"fused"}),
                   .floor_ms = bench::fastest(contestants_, {"copy", "copy, streaming"})};
    Peers::put_fastest(contestants_, row);
    rows.add(row);
    row.floor_ms = bench::fastest(contestants_, {"fused", "sliced", "unfused"});
    for (const char* const schedule : {"automatic", "unfused"}) {
      row.name = name + ", " + schedule;
      row.ms = bench::fastest(contestants_, {schedule});
      rows.add(row);
    }
  }

 private:
  std::vector<Model> g_, w_;
  coconet::Buffer gradient_;  ///< of all of `steps_`
  std::vector<std::unique_ptr<OptimizerStep<Model>>> steps_;
  float allowed_;
  std::map<int, std::vector<float>> expected_;  ///< by steps
  std::vector<bench::Contestant> contestants_;
};

/// What is timed of each.
const char* const schedules[] = {"fused", "automatic", "sliced", "unfused"};

/// In f32: the peer and the program have the same name.
struct Entry {
  Optimizer optimizer;
  double lr = bench::learning_rate;
  bool amsgrad = false;
};

void measure(const World& world, const Entry& entry, std::size_t n, Peers& peers, Rows& rows) {
  Contest<float> contest(world, n, 1e-6f);
  const std::string name = entry.optimizer.program + (entry.amsgrad ? ", amsgrad" : "");
  // 7 steps, because RAdam leaves `v` out of the first five.
  contest.enter(peers, name, {1, 3, 7});
  // Its gradient is another one after the first step.
  contest.enter(peers, name + bench::in_place, {1});
  const auto mesh = coconet::Mesh::over(world);
  const Program program =
      entry.amsgrad ? coconet::programs::adam(mesh, coconet::f32, {.amsgrad = true})
                    : coconet::programs::find(entry.optimizer.program)->build(mesh, coconet::f32);
  for (const char* const schedule : schedules)
    contest.enter(world, entry.optimizer, program, schedule, entry.lr, {1, 3, 7});
  contest.measure(name, rows);
  peers.clear();
}

const std::vector<Entry>& entries() {
  using namespace bench::rules;
  static const std::vector<Entry> table = {
      {{"sgd", {}, false}, Sgd::lr},
      {{"momentum_sgd", {"m"}, false}, MomentumSgd::lr},
      {{"adam", {"m", "v"}}},
      {{"adam", {"m", "v", "v_max"}}, AmsGrad::lr, true},
      {{"adamw", {"m", "v"}}},
      {{"adamax", {"m", "u"}}},
      {{"nadam", {"m", "v"}}},
      {{"radam", {"m", "v"}}},
      {{"adagrad", {"v"}, false}, Adagrad::lr},
      {{"adadelta", {"v", "d"}, false}, Adadelta::lr},
      {{"rmsprop", {"v"}, false}},
      {{"rprop", {"previous", "step_size"}}},
      {{"lion", {"m"}, false}},
      {{"lamb", {"m", "v"}}},
      {{"lars", {"m"}, false}, Lars::lr},
      {{"novograd", {"m", "v"}}, NovoGrad::lr},
  };
  return table;
}

template <class Model>
void measure_mixed(const World& world, std::size_t n, Peers& peers, Rows& rows) {
  const coconet::DType dtype = coconet::dtype_of<Model>;
  const float allowed = dtype == coconet::f16 ? 0x1p-11f : 0x1p-8f;  // a unit in the last place
  Contest<Model> contest(world, n, allowed);
  const std::string name = "adam mixed " + std::string(coconet::to_string(dtype));
  contest.enter(peers, name + ", widened", {3});
  contest.enter(peers, name + ", 16 bits", {3});
  const Optimizer optimizer{"adam", {"m", "v", "master"}};
  const Program program =
      coconet::programs::adam(coconet::Mesh::over(world), coconet::programs::mixed(dtype));
  for (const char* const schedule : schedules)
    contest.enter(world, optimizer, program, schedule, bench::learning_rate, {3});
  contest.measure(name, rows);
  peers.clear();
}

void run(const bench::Options& options) {
  const World world = World::mpi();
  Rows rows("optimizers", world.size(), world.rank() == 0, options.json);
  Peers peers(options.other_mpis, world.rank(), world.size());
  constexpr int most = 24;
  for (const int exponent :
       options.quick ? std::vector{12, 18, most} : std::vector{10, 12, 14, 16, 18, 20, 22, most}) {
    const std::size_t n = std::size_t{1} << exponent;
    for (const Entry& entry : entries()) measure(world, entry, n, peers, rows);
    measure_mixed<coconet::Half>(world, n, peers, rows);
    measure_mixed<coconet::BFloat16>(world, n, peers, rows);
  }
  bench::measure_all_options(world, std::int64_t{1} << most, rows);
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
