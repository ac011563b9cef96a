// Times a data-parallel Adam step over the parameters of BERT as they lie, 199 buffers: this
// library's one kernel against an MPI_Allreduce and a loop for each buffer, against the same for
// one packed buffer, and against its own kernel for one.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bert.h"
#include "coconet/coconet.h"
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
  Fused(const coconet::World& world, coconet::programs::Storage storage,
        const std::vector<std::int64_t>& lengths)
      : world_(world),
        scattered_(storage == coconet::programs::Storage::scattered),
        n_(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})),
        step_(coconet::compile(
            coconet::programs::adam(coconet::Mesh::over(world), coconet::f32, {}, storage),
            coconet::Schedule::load("adam-fused.json"), world, {{"n", n_}},
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
  const coconet::World& world_;
  bool scattered_;
  std::int64_t n_;
  coconet::Executable step_;
};

/// Collective: throws unless the first step leads to the weights of `peer`. Every 1009th weight is
/// looked at.
void verify(Fused& fused, const Gradient& gradient, bench::ListPeer& peer,
            const std::string& name) {
  fused.begin(gradient);
  fused.step(1);
  std::size_t at = 0;
  int wrong = 0;
  for (const std::span<float> part : fused.parts("w")) {
    for (std::size_t i = 0; i < part.size(); i += 1009)
      wrong += std::abs(part[i] - peer.weight(at + i)) <= 1e-6f ? 0 : 1;
    at += part.size();
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (wrong != 0) throw std::runtime_error(name + " computes other weights than the peer");
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

  bench::ListPeer loop(lengths, world.size());
  bench::ListPeer packed({n}, world.size());
  Fused scattered(world, coconet::programs::Storage::scattered, lengths);
  Fused whole(world, coconet::programs::Storage::whole, lengths);
  packed.begin(gradient, first_weight);
  packed.step(1);
  verify(scattered, gradient, packed, "the scattered kernel");
  verify(whole, gradient, packed, "the contiguous kernel");

  constexpr int most_steps = 4;  // the peers' gradients grow
  std::vector<bench::Contestant> contestants;
  const auto enter = [&](const char* name, std::function<void()> begin,
                         std::function<void(int)> step) {
    contestants.push_back({.name = name,
                           .begin = std::move(begin),
                           .step = std::move(step),
                           .most_steps = most_steps});
  };
  enter(
      "loop", [&] { loop.begin(gradient, first_weight); }, [&](int t) { loop.step(t); });
  enter(
      "packed", [&] { packed.begin(gradient, first_weight); }, [&](int t) { packed.step(t); });
  enter(
      "scattered", [&] { scattered.begin(gradient); }, [&](int t) { scattered.step(t); });
  enter(
      "whole", [&] { whole.begin(gradient); }, [&](int t) { whole.step(t); });
  bench::measure(contestants);

  bench::Rows rows("scattered", world.size(), world.rank() == 0, options.json);
  for (std::size_t peer = 0; peer < 2; ++peer) {
    rows.add({.name = "adam, peer " + contestants[peer].name,
              .n = static_cast<std::size_t>(n),
              .ms = contestants[2].ms,
              .peer_ms = contestants[peer].ms,
              .floor_ms = contestants[3].ms});
  }
  rows.write();
  const std::uint64_t table_bytes = scattered.table_bytes();
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
