// Times data-parallel steps over the parameters of BERT as they lie, 199 buffers: this library's
// one kernel against an MPI_Allreduce and loops for each buffer, and against its own kernel for one
// tensor; Adam also against the peer of one packed buffer. The ratios of LAMB are those of each
// buffer, and of the one tensor.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bert.h"
#include "coconet/coconet.h"
#include "lamb_peer.h"
#include "parameter_list.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace {

using bench::first_weight;
using bench::Gradient;

/// This library's fused step, in memory of its own.
class Fused {
 public:
  Fused(const coconet::World& world, std::string_view optimizer, coconet::programs::Storage storage,
        const std::vector<std::int64_t>& lengths)
      : world_(world),
        scattered_(storage == coconet::programs::Storage::scattered),
        n_(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})),
        step_(coconet::compile(
            program_of(*coconet::programs::find(optimizer), coconet::Mesh::over(world)),
            coconet::Schedule::load(std::string(optimizer) + "-fused.json"), world, {{"n", n_}},
            scattered_ ? coconet::ParameterLists{{"n", lengths}} : coconet::ParameterLists{})) {}

  void begin(const Gradient& gradient) {
    std::size_t at = 0;
    for (const std::span<float> part : parts("g")) {
      for (float& element : part) element = gradient(at++);
    }
    for (const std::span<float> part : parts("w")) std::ranges::fill(part, first_weight);
    for (const char* name : {"m", "v"}) std::ranges::fill(step_.data<float>(name), 0.0f);
    world_.barrier();
  }
  void step(int t) { step_.run({{"lr", bench::learning_rate}, {"t", t}}); }
  [[nodiscard]] std::vector<std::span<float>> parts(std::string_view name) {
    std::vector<std::span<float>> parts;
    for (std::size_t i = 0; i < step_.buffers(name); ++i)
      parts.push_back(step_.data<float>(name, i));
    return parts;
  }
  [[nodiscard]] std::uint64_t table_bytes() { return step_.report().table_bytes; }

 private:
  [[nodiscard]] coconet::Program program_of(const coconet::programs::Shipped& shipped,
                                            const coconet::Mesh& mesh) const {
    return (scattered_ ? shipped.scattered : shipped.build)(mesh, coconet::f32);
  }

  const coconet::World& world_;
  bool scattered_;
  std::int64_t n_;
  coconet::Executable step_;
};

/// An MPI_Allreduce and the loops of LAMB for each buffer.
class LambLoop {
 public:
  LambLoop(const std::vector<std::int64_t>& lengths, int ranks) {
    for (const std::int64_t length : lengths) {
      const auto n = static_cast<std::size_t>(length);
      parts_.push_back({n, bench::LambPeer((n + 15) / 16 * 16, ranks, true)});
    }
  }
  void begin(const Gradient& gradient) {
    std::vector<float> g, w;
    std::size_t at = 0;
    for (Part& part : parts_) {
      g.assign(part.peer.weights().size(), 0);  // padded
      w.assign(g.size(), 0);
      for (std::size_t i = 0; i < part.n; ++i) g[i] = gradient(at + i);
      std::fill_n(w.begin(), part.n, first_weight);
      part.peer.begin(g, w);
      at += part.n;
    }
  }
  void step(int t) {
    for (Part& part : parts_) part.peer.step(t);
  }
  [[nodiscard]] float weight(std::size_t i) const {
    for (const Part& part : parts_) {
      if (i < part.n) return part.peer.weights()[i];
      i -= part.n;
    }
    return 0;
  }

 private:
  struct Part {
    std::size_t n;
    bench::LambPeer peer;
  };
  std::vector<Part> parts_;
};

/// Collective: throws unless the first step leads to the weights of `peer`. Every 1009th weight is
/// looked at.
template <class Peer>
void verify(Fused& fused, const Gradient& gradient, const Peer& peer, const std::string& name) {
  fused.begin(gradient);
  fused.step(1);
  std::size_t at = 0;
  int wrong = 0;
  for (const std::span<float> part : fused.parts("w")) {
    for (std::size_t i = 0; i < part.size(); i += 1009)
      wrong += std::abs(part[i] - peer.weight(at + i)) <= 2e-6f ? 0 : 1;
    at += part.size();
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (wrong != 0) throw std::runtime_error(name + " computes other weights than the peer");
}

/// What is timed. Few steps at a time, as the peers' gradients grow.
class Contest {
 public:
  void enter(const char* name, std::function<void()> begin, std::function<void(int)> step) {
    contestants_.push_back(
        {.name = name, .begin = std::move(begin), .step = std::move(step), .most_steps = 4});
  }
  void enter(const char* name, Fused& fused, const Gradient& gradient) {
    enter(
        name, [&fused, gradient] { fused.begin(gradient); }, [&fused](int t) { fused.step(t); });
  }
  /// Rows of all peers, which come before the scattered and the contiguous kernel.
  void measure(bench::Rows& rows, const std::string& step, std::size_t n) {
    bench::measure(contestants_);
    const std::size_t peers = contestants_.size() - 2;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      rows.add({.name = step + ", peer " + contestants_[peer].name,
                .n = n,
                .ms = contestants_[peers].ms,
                .peer_ms = contestants_[peer].ms,
                .floor_ms = contestants_[peers + 1].ms});
    }
  }

 private:
  std::vector<bench::Contestant> contestants_;
};

using coconet::programs::Storage;

/// Collective: bytes of the tables.
std::uint64_t measure_adam(const coconet::World& world, const std::vector<std::int64_t>& lengths,
                           const Gradient& gradient, bench::Rows& rows) {
  const std::int64_t n = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  bench::ListPeer loop(lengths, world.size());
  bench::ListPeer packed({n}, world.size());
  Fused scattered(world, "adam", Storage::scattered, lengths);
  Fused whole(world, "adam", Storage::whole, lengths);
  packed.begin(gradient, first_weight);
  packed.step(1);
  verify(scattered, gradient, packed, "the scattered kernel");
  verify(whole, gradient, packed, "the contiguous kernel");
  Contest contest;
  contest.enter(
      "loop", [&] { loop.begin(gradient, first_weight); }, [&](int t) { loop.step(t); });
  contest.enter(
      "packed", [&] { packed.begin(gradient, first_weight); }, [&](int t) { packed.step(t); });
  contest.enter("scattered", scattered, gradient);
  contest.enter("whole", whole, gradient);
  contest.measure(rows, "adam", static_cast<std::size_t>(n));
  return scattered.table_bytes();
}

/// Collective.
void measure_lamb(const coconet::World& world, const std::vector<std::int64_t>& lengths,
                  const Gradient& gradient, bench::Rows& rows) {
  const std::int64_t n = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  LambLoop loop(lengths, world.size());
  Fused scattered(world, "lamb", Storage::scattered, lengths);
  Fused whole(world, "lamb", Storage::whole, lengths);
  loop.begin(gradient);
  loop.step(1);
  verify(scattered, gradient, loop, "the scattered kernel of LAMB");
  Contest contest;
  contest.enter(
      "loop", [&] { loop.begin(gradient); }, [&](int t) { loop.step(t); });
  contest.enter("scattered", scattered, gradient);
  contest.enter("whole", whole, gradient);
  contest.measure(rows, "lamb by layer", static_cast<std::size_t>(n));
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  std::vector<std::int64_t> lengths;
  bert::Config config;
  if (options.quick) {
    config.layers = 2;
    config.vocabulary = 3052;
  }
  for (const bert::Parameter& parameter : bert::parameters(config))
    lengths.push_back(parameter.count());
  const std::int64_t n = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const Gradient gradient{static_cast<std::size_t>(world.rank())};
  bench::Rows rows("scattered", world.size(), world.rank() == 0, options.json);
  const std::uint64_t table_bytes = measure_adam(world, lengths, gradient, rows);
  measure_lamb(world, lengths, gradient, rows);
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
