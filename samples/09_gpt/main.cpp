// A small GPT learns to add numbers that are written as text, on ranks that share out each batch.
// The forward pass is written in src/sched/programs/gpt.cpp; the library derives the gradients and
// adds AdamW, in one program.
//
//   mpirun -n 2 09_gpt [--steps N] [--layers N] [--hidden N] [--heads N] [--batch N]
//                      [--checkpoint DIR [--resume 1]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "weights.h"

using namespace coconet;
using programs::Gpt, programs::GptSize;

namespace {

constexpr int below = 100;                     ///< summands are from 0 to 99
constexpr int question = 6, answer = 3;        ///< "47+85=" and "231", last digit first
constexpr int length = question + answer - 1;  ///< the last token is only answered
constexpr int plus = 10, equals = 11, vocabulary = 12;

/// Tokens and, of what the model has to answer, the token after each; -100 elsewhere.
struct Batch {
  std::vector<int> tokens, labels;

  void add(int a, int b) {
    const int sum = a + b;
    const int text[] = {a / 10, a % 10,   plus,          b / 10,   b % 10,
                        equals, sum % 10, sum / 10 % 10, sum / 100};
    tokens.insert(tokens.end(), text, text + length);
    for (int i = 1; i <= length; ++i) labels.push_back(i < question ? -100 : text[i]);
  }
};

/// A tenth of the sums, as if drawn, is held out: the model never learns from it.
bool is_held_out(int a, int b) {
  const unsigned mixed = static_cast<unsigned>(a * below + b) * 2654435761U;  // Knuth's hash
  return (mixed >> 16) % 10 == 0;
}

Batch held_out() {
  Batch batch;
  for (int n = 0; n < below * below; ++n) {
    if (is_held_out(n / below, n % below)) batch.add(n / below, n % below);
  }
  return batch;
}

/// Of a step: the same on every rank, and after a restart.
Batch drawn(int size, int step) {
  std::mt19937 random(static_cast<unsigned>(step));
  Batch batch;
  while (static_cast<int>(batch.tokens.size()) < size * length) {
    const int a = static_cast<int>(random() % below), b = static_cast<int>(random() % below);
    if (!is_held_out(a, b)) batch.add(a, b);
  }
  return batch;
}

Program training_step(const Mesh& mesh, const GptSize& size, int batch,
                      std::vector<Gpt::Weight>& made) {
  Program program("train_gpt", mesh);
  const Value tokens = program.input("text", i32, {batch, length}, sliced(0));
  const Value labels = program.input("labels", i32, {batch, length}, sliced(0));
  Gpt gpt(program, size);
  const Value loss = cross_entropy(gpt.logits(tokens), labels);
  program.output("loss", loss);
  made = gpt.weights();
  const std::vector<Value> weights = gpt.values();
  programs::adamw(program, weights, gradients(loss, weights),
                  {.beta2 = 0.98, .weight_decay = 0.1, .max_norm = 1.0},
                  {.groups = {{"*norm", 1.0, 0.0}}});
  return program;
}

Program answering(const Mesh& mesh, const GptSize& size, int batch) {
  Program program("ask_gpt", mesh);
  const Value tokens = program.input("text", i32, {batch, length}, sliced(0));
  program.output("logits", all_gather(Gpt(program, size).logits(tokens)));
  return program;
}

/// Collective: the share of sums that the model gets right, going on from each digit that it says.
double share_of_right(Executable& ask, Batch batch) {
  const std::size_t count = batch.tokens.size() / length;
  std::vector<char> right(count, 1);
  std::vector<float> logits(count * length * vocabulary);
  for (std::size_t place = question - 1; place < length; ++place) {
    ask.write_whole("text", batch.tokens);
    ask.run({});
    ask.read("logits", logits);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i * length + place;
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(at * vocabulary);
      const auto said = static_cast<int>(std::max_element(row, row + vocabulary) - row);
      if (said != batch.labels[at]) right[i] = 0;
      if (place + 1 < length) batch.tokens[at + 1] = said;
    }
  }
  return static_cast<double>(std::ranges::count(right, 1)) / static_cast<double>(count);
}

using Options = std::map<std::string, std::string>;

Options parse(int argc, char** argv) {
  Options options = {{"--steps", "1000"}, {"--layers", "2"},  {"--hidden", "64"},
                     {"--heads", "4"},    {"--batch", "128"}, {"--checkpoint", ""},
                     {"--resume", "0"}};
  for (int i = 1; i < argc; i += 2) {
    if (options.contains(argv[i]) && i + 1 < argc) {
      options[argv[i]] = argv[i + 1];
      continue;
    }
    throw std::invalid_argument("'" + std::string(argv[i]) +
                                "': there are --steps, --layers, --hidden, --heads, --batch, "
                                "--checkpoint and --resume, each with a value");
  }
  return options;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void run(const Options& options) {
  const auto number = [&](const char* name) { return std::stoi(options.at(name)); };
  const World world = World::mpi();
  const Mesh mesh = Mesh::over(world);
  const int steps = number("--steps"), batch = number("--batch") * world.size();
  const GptSize size{vocabulary, length, number("--layers"), number("--hidden"), number("--heads")};
  const Batch test = held_out();
  const auto begun = std::chrono::steady_clock::now();
  std::vector<Gpt::Weight> weights;
  // Kernels are fused without a schedule, too, and to search for a better one takes seconds.
  const Schedule none("none");
  Executable step = compile(training_step(mesh, size, batch, weights), none, world);
  Executable ask =
      compile(answering(mesh, size, static_cast<int>(test.tokens.size()) / length), none, world);
  ask.share_states(step);

  const std::size_t parameters = initialise(step, weights);
  const bool tells = world.rank() == 0;
  if (tells) {
    std::printf("%zu parameters, %d sums a step on %d ranks; compiled in %.1f s\n", parameters,
                batch, world.size(), seconds_since(begun));
  }
  const std::filesystem::path checkpoints = options.at("--checkpoint");
  int done = 0;
  if (number("--resume") != 0) {
    const auto found = step.load_latest(checkpoints, {.may_be_first_start = true});
    if (found) done = std::stoi(found->metadata.at("steps"));
    if (tells) std::printf("going on after step %d\n", done);
  }
  const auto start = std::chrono::steady_clock::now();
  for (int t = done + 1; t <= steps; ++t) {
    const Batch learned = drawn(batch, t);
    step.write_whole("text", learned.tokens);
    step.write_whole("labels", learned.labels);
    // 50 steps of warm-up, then half a cosine down to a tenth.
    const double lr =
        3e-3 * std::min(1.0, t / 50.0) * (0.55 + 0.45 * std::cos(std::numbers::pi * t / steps));
    step.run({{"lr", lr}, {"t", t}});
    if (t % 100 == 0 || t == steps) {
      const auto loss = static_cast<double>(step.scalar_of<float>("loss"));
      const double each = seconds_since(start) / (t - done);
      if (tells) {
        std::printf("step %4d  loss %.4f  %7.0f tokens a second  %3.0f s left\n", t, loss,
                    batch * length / each, each * (steps - t));
        std::fflush(stdout);
      }
    }
    if (!checkpoints.empty() && (t % 500 == 0 || t == steps)) {
      step.save(checkpoints / ("step-" + std::to_string(t)),
                {.metadata = {{"steps", std::to_string(t)}}, .keep = 2});
    }
  }
  const double right = share_of_right(ask, test);
  if (tells) std::printf("held-out sums right: %.2f\n", right);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
