// Times data-parallel steps over the parameters of BERT as they lie, 199 buffers: this library's
// one kernel against an MPI_Allreduce and loops for each buffer, and against its own kernel for one
// tensor; Adam also against the peer of one packed buffer. The ratios of LAMB are those of each
// buffer, and of the one tensor.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bert.h"
#include "coconet/coconet.h"
#include "lamb_peer.h"
#include "optimizer_peers.h"
#include "optimizer_step.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace {

using Fused = bench::OptimizerStep<float>;
using Lengths = std::vector<std::int64_t>;

/// This library's fused step over buffers of `lengths`, or over a tensor of one length.
Fused make_fused(const coconet::World& world, const std::string& optimizer,
                 const Lengths& lengths) {
  const coconet::programs::Shipped& shipped = *coconet::programs::find(optimizer);
  const auto build = lengths.size() == 1 ? shipped.build : shipped.scattered;
  return Fused(world, {optimizer, {"m", "v"}}, build(coconet::Mesh::over(world), coconet::f32),
               "fused", lengths, bench::learning_rate);
}

/// What an application does without this library: an MPI_Allreduce, in place, and the loops of
/// `Peer` for each of the buffers of `lengths`.
template <class Peer>
class ListPeer {
 public:
  ListPeer(const Lengths& lengths, int ranks) {
    for (const std::int64_t length : lengths)
      parts_.emplace_back(static_cast<std::size_t>(length), ranks, true);
  }
  void begin(std::span<const float> g, std::span<const float> w) {
    for (Peer& part : parts_) {
      const std::size_t n = part.weights().size();
      part.begin(g.first(n), w.first(n));
      g = g.subspan(n);
      w = w.subspan(n);
    }
  }
  void step(int t) {
    for (Peer& part : parts_) part.step(t);
  }
  [[nodiscard]] const std::vector<Peer>& parts() const { return parts_; }

 private:
  std::vector<Peer> parts_;
};

/// What is timed. Few steps at a time, as the peers' gradients grow.
class Contest {
 public:
  Contest(const coconet::World& world, std::int64_t n)
      : g_(bench::make_gradient(static_cast<std::size_t>(n), world.rank())),
        w_(g_.size(), bench::first_weight) {}

  template <class Step>
  void enter(const char* name, Step& step) {
    contestants_.push_back({.name = name,
                            .begin = [this, &step] { step.begin(g_, w_); },
                            .step = [&step](int t) { step.step(t); },
                            .most_steps = 4});
  }
  /// Collective: throws unless the first step of `fused` leads to the weights of that of `peer`.
  template <class Peer>
  void verify(Fused& fused, ListPeer<Peer>& peer, const std::string& name) {
    peer.begin(g_, w_);
    peer.step(1);
    fused.begin(g_, w_);
    fused.step(1);
    std::vector<float> weights(w_.size());
    fused.executable().read("w", weights);
    int wrong = 0;
    auto weight = weights.begin();
    for (const Peer& part : peer.parts()) {
      for (const float expected : part.weights())
        wrong |= std::abs(*weight++ - expected) <= 2e-6f ? 0 : 1;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (wrong != 0) throw std::runtime_error(name + " computes other weights than the peer");
  }
  /// Rows of all peers, which come before the scattered and the contiguous kernel.
  void measure(bench::Rows& rows, const std::string& step) {
    bench::measure(contestants_);
    const std::size_t peers = contestants_.size() - 2;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      rows.add({.name = step + ", peer " + contestants_[peer].name,
                .n = w_.size(),
                .ms = contestants_[peers].ms,
                .peer_ms = contestants_[peer].ms,
                .floor_ms = contestants_[peers + 1].ms});
    }
  }

 private:
  std::vector<float> g_, w_;
  std::vector<bench::Contestant> contestants_;
};

/// Collective: bytes of the tables.
std::uint64_t measure_adam(const coconet::World& world, const Lengths& lengths, std::int64_t n,
                           bench::Rows& rows) {
  using Peer = bench::Peer<bench::rules::Adam>;
  ListPeer<Peer> loop(lengths, world.size()), packed({n}, world.size());
  Fused scattered = make_fused(world, "adam", lengths), whole = make_fused(world, "adam", {n});
  Contest contest(world, n);
  contest.verify(scattered, packed, "the scattered kernel");
  contest.verify(whole, packed, "the contiguous kernel");
  contest.enter("loop", loop);
  contest.enter("packed", packed);
  contest.enter("scattered", scattered);
  contest.enter("whole", whole);
  contest.measure(rows, "adam");
  return scattered.executable().report().table_bytes;
}

/// Collective.
void measure_lamb(const coconet::World& world, const Lengths& lengths, std::int64_t n,
                  bench::Rows& rows) {
  ListPeer<bench::LambPeer> loop(lengths, world.size());
  Fused scattered = make_fused(world, "lamb", lengths), whole = make_fused(world, "lamb", {n});
  Contest contest(world, n);
  contest.verify(scattered, loop, "the scattered kernel of LAMB");
  contest.enter("loop", loop);
  contest.enter("scattered", scattered);
  contest.enter("whole", whole);
  contest.measure(rows, "lamb by layer");
}

/// Collective: schedules whose collectives are the library's, over 16 buffers, as a small network
/// has them, and over one tensor.
void measure_library_collectives(const coconet::World& world, bench::Rows& rows) {
  Lengths lengths;
  std::int64_t n = 0;
  for (int layer = 0; layer < 8; ++layer) {
    lengths.insert(lengths.end(), {33 * 1024 - 8 * layer, 31 + layer});
    n += lengths.end()[-2] + lengths.back();
  }
  const coconet::programs::Shipped& adam = *coconet::programs::find("adam");
  const coconet::Mesh mesh = coconet::Mesh::over(world);
  for (const std::string schedule : {"unfused", "sliced"}) {
    const auto make = [&](const coconet::Program& program, const coconet::ParameterLists& lists) {
      return coconet::compile(program, coconet::Schedule::load("adam-" + schedule + ".json"), world,
                              {{"n", n}}, lists);
    };
    std::vector<coconet::Executable> steps;
    steps.push_back(make(adam.scattered(mesh, coconet::f32), {{"n", lengths}}));
    steps.push_back(make(adam.build(mesh, coconet::f32), {}));
    std::vector<bench::Contestant> contestants;
    const std::vector<float> g = bench::make_gradient(static_cast<std::size_t>(n), world.rank());
    const std::vector<float> w(g.size(), bench::first_weight);
    std::vector<std::vector<float>> weights(2, w);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      coconet::Executable& step = steps[i];
      step.write("g", std::span<const float>(g));
      step.write("w", std::span<const float>(w));
      step.run({{"lr", bench::learning_rate}, {"t", 1}});
      step.read("w", weights[i]);
      contestants.push_back({.name = "step", .step = [&step](int t) {
                               step.run({{"lr", bench::learning_rate}, {"t", t}});
                             }});
    }
    if (weights[0] != weights[1])
      throw std::runtime_error("adam " + schedule + " computes other weights over buffers");
    bench::measure(contestants);
    rows.add({.name = "adam " + schedule + ", 16 buffers",
              .n = g.size(),
              .ms = contestants[0].ms,
              .floor_ms = contestants[1].ms});
  }
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  Lengths lengths;
  bert::Config config;
  if (options.quick) {
    config.layers = 2;
    config.vocabulary = 3052;
  }
  for (const bert::Parameter& parameter : bert::parameters(config))
    lengths.push_back(parameter.count());
  const std::int64_t n = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  bench::Rows rows("scattered", world.size(), world.rank() == 0, options.json);
  const std::uint64_t table_bytes = measure_adam(world, lengths, n, rows);
  measure_lamb(world, lengths, n, rows);
  measure_library_collectives(world, rows);
  rows.write();
  if (world.rank() == 0) {
    std::printf("%zu buffers, tables of %llu bytes: %.2f %% of a gradient in f16\n", lengths.size(),
                static_cast<unsigned long long>(table_bytes),
                100 * static_cast<double>(table_bytes) / (2 * static_cast<double>(n)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
