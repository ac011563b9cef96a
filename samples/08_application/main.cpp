// Linear regression on the application's own MPI communicator. Three executables share the weights:
// one adds up gradients of small batches, one updates the weights, one evaluates at two batch
// sizes.
#include <coconet/coconet.h>
#include <coconet/mpi.h>

#include <cstdio>
#include <random>

using namespace coconet;

constexpr int features = 1000, small_batches = 4, updates = 60;

// A rank's batch of B rows: x, and by how much x w is off y.
std::pair<Value, Value> x_and_error(Program& p, const Value& w) {
  const Dim batch = p.dim("B", 64);
  const Value x = p.input("x", f32, {batch, features}, local);
  return {x, sum(x * w, {1}, true) - p.input("y", f32, {batch, 1}, local)};
}

// Random rows; y comes from the weights that are looked for: 0.01, 0.02, ... 1.00, and again.
void write_batch(Executable& step, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(step.count("x")), y(step.count("y"));
  for (float& one : x) one = normal(random);
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i / features] += x[i] * 0.01f * static_cast<float>(i % 100 + 1);
  step.write("x", x), step.write("y", y);
}

void run(const World& world) {
  Program adding("accumulate", Mesh::over(world));
  auto [x, error] = x_and_error(adding, adding.state("w", f32, {features}, replicated));
  const Value so_far = adding.state("gradient", f32, {features}, local);
  update(so_far, so_far + sum(x * error, {0}));

  Program training("train", Mesh::over(world));
  const Value w = training.state("w", f32, {features}, replicated);
  const Value gradient = training.state("gradient", f32, {features}, local);
  const Value total = all_reduce(gradient, sum).named("total");
  const Value w1 = update(w, w - training.scalar("rate") / training.scalar("rows") * total);
  update(gradient, gradient * 0);
  Scheduler s(training, "fused");
  auto [slice, gathered] = s.split(total);
  const Handles whole = s.reorder(gathered, w1);
  s.fuse("update", {slice, w1, whole});

  Program evaluation("evaluate", Mesh::over(world));
  const Value off =
      x_and_error(evaluation, evaluation.state("w", f32, {features}, replicated)).second;
  evaluation.output("loss", all_reduce(mean(off * off), mean));

  Executable train = compile(training, s.schedule(), world);
  Executable accumulate = compile(adding, world), evaluate = compile(evaluation, world);
  accumulate.share_states(train), evaluate.share_states(train);

  std::mt19937 random(static_cast<unsigned>(world.rank()));
  for (int step = 0; step <= updates; ++step) {
    for (const int batch : {64, 65}) {
      if (step % 20 != 0) continue;
      evaluate.resize({{"B", batch}});  // compiles nothing, and the weights stay where they are
      write_batch(evaluate, random);
      evaluate.run();
      const auto loss = evaluate.scalar_of<float>("loss");
      if (world.rank() == 0) std::printf("update %2d  batch %d  loss %.4f\n", step, batch, loss);
    }
    for (int part = 0; part < small_batches; ++part) {
      write_batch(accumulate, random);
      accumulate.run();
    }
    train.run({{"rate", 0.1}, {"rows", 64.0 * small_batches * world.size()}});
  }
}

int main() {
  MPI_Init(nullptr, nullptr);
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &mine);
  run(World::mpi(mine, {.timeout = std::chrono::seconds(30)}));
  MPI_Comm_free(&mine);
  MPI_Finalize();
}
