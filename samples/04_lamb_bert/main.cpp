// One LAMB step over the parameters of BERT-base as they lie, 199 buffers, as one kernel:
// reduce_scatter of the gradients, the update of each rank's slice with the norms of each layer
// over all ranks, and all_gather of the weights. Biases and layer norms have no weight decay, and
// the gradient is clipped to a norm over all layers.
// `--list` shows the parameters.
#include <coconet/coconet.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "bert.h"

namespace {

constexpr int steps = 10;
constexpr double mib = 1 << 20;
constexpr float decay = 0.01f;

/// Biases, and the scales of layer norms, are kept out of weight decay.
bool decays(const bert::Parameter& parameter) {
  return parameter.shape.size() > 1;
}

int list() {
  for (const bert::Parameter& parameter : bert::parameters()) {
    std::string shape;
    for (const std::int64_t extent : parameter.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    std::printf("%s [%s]\n", parameter.name.c_str(), shape.c_str());
  }
  return EXIT_SUCCESS;
}

void train(const coconet::World& world) {
  std::vector<std::int64_t> lengths;
  std::vector<float> weight_decay;
  std::int64_t total = 0;
  for (const bert::Parameter& parameter : bert::parameters()) {
    lengths.push_back(parameter.count());
    weight_decay.push_back(decays(parameter) ? decay : 0);
    total += parameter.count();
  }
  const auto program =
      coconet::programs::lamb(coconet::Mesh::over(world), coconet::f32,
                              {.max_norm = 1, .gradient_norm = true, .groups = true},
                              coconet::programs::Storage::scattered);
  auto lamb = coconet::compile(program, coconet::Schedule::load("lamb-fused.json"), world, {},
                               {{"n", lengths}});

  // What a model would give: its weights, and gradients after a backward pass. Memory that a
  // framework allocates is given by `bind`.
  for (std::size_t i = 0; i < lamb.buffers("w"); ++i) {
    std::ranges::fill(lamb.data<float>("w", i), 0.02f);
    std::ranges::fill(lamb.data<float>("g", i), 1e-3f * static_cast<float>(world.rank() + 1));
  }
  lamb.write("weight_decay", weight_decay);
  lamb.write("lr_scale", std::vector<float>(lengths.size(), 1));
  for (const char* moment : {"m", "v"}) std::ranges::fill(lamb.data<float>(moment), 0.0f);
  world.barrier();

  for (int t = 1; t <= steps; ++t) lamb.run({{"lr", 1e-3}, {"t", t}});
  const coconet::Report report = lamb.report();
  if (world.rank() != 0) return;
  std::printf("%zu tensors, %lld parameters, %d ranks\n", lengths.size(),
              static_cast<long long>(total), world.size());
  std::printf("step: %.1f ms, kernels: %zu\n", report.ms, report.kernels.size());
  std::printf("norm of the gradient: %.3f, clipped to 1\n",
              static_cast<double>(lamb.scalar_of<float>("gradient_norm")));
  std::printf("tables: %llu bytes, %.2f %% of a gradient in f16\n",
              static_cast<unsigned long long>(report.table_bytes),
              100 * static_cast<double>(report.table_bytes) / static_cast<double>(2 * total));
  std::printf("memory of a rank, MiB:");
  for (const char* name : {"g", "w", "m", "v"})
    std::printf(" %s %.0f", name, static_cast<double>(lamb.allocated_bytes(name)) / mib);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) try {
  const auto world = coconet::World::mpi();
  if (argc > 1 && argv[1] == std::string_view("--list"))
    return world.rank() == 0 ? list() : EXIT_SUCCESS;
  train(world);
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "04_lamb_bert: %s\n", error.what());
  return EXIT_FAILURE;
}
