// A training step of the transformer of samples/09_gpt: forward, backward, clipping and AdamW, on
// ranks with a batch each. bench/torch_training.py is the same in PyTorch.
#include <mpi.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "timing.h"
#include "weights.h"

using namespace coconet;
using programs::Gpt, programs::GptSize;

namespace {

constexpr int vocabulary = 256, length = 128, batch = 8;  // a batch of each rank's
const GptSize size{vocabulary, length, 4, 256, 4};

Program training_step(const Mesh& mesh, std::vector<Gpt::Weight>& made) {
  Program program("train_gpt", mesh);
  const int sequences = batch * mesh.size();
  const Value text = program.input("text", i32, {sequences, length}, sliced(0));
  const Value labels = program.input("labels", i32, {sequences, length}, sliced(0));
  Gpt gpt(program, size);
  const Value loss = cross_entropy(gpt.logits(text), labels);
  program.output("loss", loss);
  made = gpt.weights();
  const std::vector<Value> weights = gpt.values();
  programs::adamw(program, weights, gradients(loss, weights), {.max_norm = 1.0});
  return program;
}

double maximum(double mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return mine;
}

void run(int steps) {
  const World world = World::mpi();
  std::vector<Gpt::Weight> weights;
  Executable step = compile(training_step(Mesh::over(world), weights), Schedule("none"), world);
  (void)initialise(step, weights);
  std::mt19937 random(2);
  std::vector<int> tokens(step.count("text")), labels(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int>(random() % vocabulary);
    labels[i] = (tokens[i] * 7 + 3) % vocabulary;
  }
  step.write("text", tokens);
  step.write("labels", labels);
  constexpr int warm_up = 3;
  std::vector<double> times;
  for (int t = 1; t <= warm_up + steps; ++t) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    step.run({{"lr", 1e-3}, {"t", t}});
    step.synchronize();
    if (t > warm_up) times.push_back(maximum((MPI_Wtime() - start) * 1e3));
  }
  double products = 0;
  for (const KernelStats& kernel : step.local_stats().kernels) {
    if (kernel.kind == "matmul") products += kernel.p50_ms;
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const double whole = bench::median(times), apart = maximum(products),
               memory = maximum(static_cast<double>(used.ru_maxrss) / 1024);
  if (world.rank() != 0) return;
  std::printf("coconet-jit  %8.1f ms a step  %8.1f outside products  %6.0f MiB  loss %.4f\n", whole,
              whole - apart, memory, static_cast<double>(step.scalar_of<float>("loss")));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::atoi(argv[1]) : 15);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
