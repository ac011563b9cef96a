// Data-parallel training of a small network on real handwritten digits. Forward and backward pass
// are plain C++ on this rank's share of each batch; averaging the gradients over the ranks and
// updating the parameters is one step of this library, by default a single generated kernel.
//
//   mpirun -n 2 03_train_digits [--optimizer sgd|momentum_sgd|adam|adamw]
//                               [--schedule unfused|sliced|fused] [--epochs N] [--data FILE]
//                               [--gradients f32|f16] [--checkpoint DIR [--resume]]
//
// With `--gradients f16` the model and its gradients are f16, the optimizer works on a copy in f32,
// and the loss is scaled so that small gradients stay above the least of f16.
//
// With `--checkpoint DIR` every epoch ends with a checkpoint in DIR, the newest two of which stay,
// and `--resume` goes on from the newest: to the same weights, bit by bit, as without a break.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/coconet.h"
#include "digits.h"
#include "mlp.h"

#ifndef COCONET_SAMPLE_DIR
#define COCONET_SAMPLE_DIR "samples/03_train_digits"
#endif

namespace {

/// An optimizer of coconet::programs with what this sample gives it.
struct Optimizer {
  std::string_view name;
  double learning_rate;
  std::vector<std::string_view> moments;  ///< its states besides the parameters `w`
  bool counts_steps;                      ///< has the scalar `t`
};

const std::array<Optimizer, 4> optimizers = {{{"sgd", 0.5, {}, false},
                                              {"momentum_sgd", 0.1, {"m"}, false},
                                              {"adam", 5e-3, {"m", "v"}, true},
                                              {"adamw", 5e-3, {"m", "v"}, true}}};

struct Options {
  std::string optimizer = "adam";
  std::string schedule = "fused";
  int epochs = 50;
  bool half = false;  ///< f16 for the model and its gradients
  std::filesystem::path data = std::filesystem::path(COCONET_SAMPLE_DIR) / "data/digits.csv";
  std::filesystem::path checkpoints;  ///< a directory; empty: none
  bool resume = false;                ///< begins with the newest of them
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--resume") {
      options.resume = true;
      --i;  // it has no value
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument(std::string(name) + " needs a value");
    const std::string value = argv[i + 1];
    if (name == "--optimizer") {
      options.optimizer = value;
    } else if (name == "--schedule") {
      options.schedule = value;
    } else if (name == "--epochs") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), options.epochs);
      if (error != std::errc() || *end != 0 || options.epochs < 1)
        throw std::invalid_argument("--epochs is '" + value + "'; it takes a number from 1 on");
    } else if (name == "--data") {
      options.data = value;
    } else if (name == "--checkpoint") {
      options.checkpoints = value;
    } else if (name == "--gradients") {
      options.half = value == "f16";
      if (!options.half && value != "f32")
        throw std::invalid_argument("--gradients is '" + value + "'; it takes f32 or f16");
    } else {
      throw std::invalid_argument("unknown option " + std::string(name) +
                                  "; there are --optimizer, --schedule, --epochs, --data, "
                                  "--gradients, --checkpoint and --resume");
    }
  }
  if (options.resume && options.checkpoints.empty())
    throw std::invalid_argument("--resume takes --checkpoint DIR, which it goes on from");
  return options;
}

/// The parameter update as this library runs it: an optimizer under a schedule.
class Update {
 public:
  Update(const coconet::World& world, const std::string& optimizer, const std::string& schedule,
         bool half)
      : optimizer_(find(optimizer)),
        half_(half),
        step_(coconet::compile(program_of(world, optimizer),
                               coconet::Schedule::load(optimizer + "-" + schedule + ".json"), world,
                               {{"n", static_cast<std::int64_t>(mlp::parameters)}})),
        halves_(mlp::parameters) {
    // The library's own memory for all of them; the moments start as zeros.
    for (const std::string_view name : optimizer_.moments) step_.data<float>(name);
    if (!half) {
      for (const std::string_view name : {"g", "w"}) step_.data<float>(name);
    }
  }

  /// By which the loss is multiplied.
  [[nodiscard]] double loss_scale() {
    if (!half_) return 1;
    const float scale = step_.scalar_of<float>("scale");
    return scale == 0 ? 65536 : static_cast<double>(scale);
  }
  /// Of the loss times `loss_scale`.
  void set_gradient(const std::vector<float>& gradient) {
    if (!half_) return step_.write("g", gradient);
    coconet::convert(gradient, std::span(halves_));
    step_.write("g", halves_);
  }
  /// Collective.
  void set_weights(const std::vector<float>& weights) {
    if (!half_) return step_.write("w", weights);
    coconet::convert(weights, std::span(halves_));
    step_.write("w", halves_);
    step_.write_whole("master", weights);
  }
  void get_weights(std::vector<float>& weights) {
    if (!half_) return step_.read("w", weights);
    step_.read("w", halves_);
    coconet::convert(std::span<const coconet::Half>(halves_), weights);
  }
  /// Collective: saves the states after `epoch` in `directory`, where the newest two stay.
  void save(const std::filesystem::path& directory, int epoch) {
    step_.save(
        directory / ("epoch-" + std::to_string(epoch)),
        {.metadata = {{"epoch", std::to_string(epoch)}, {"steps", std::to_string(t_)}}, .keep = 2});
  }
  /// Collective: loads the newest states in `directory`, and returns the epoch that they were saved
  /// after; 0 where there are none, as at the first start.
  int load(const std::filesystem::path& directory) {
    const std::optional<coconet::Checkpoint> found =
        step_.load_latest(directory, {.may_be_first_start = true});
    if (!found) return 0;
    t_ = std::stoi(found->metadata.at("steps"));
    return std::stoi(found->metadata.at("epoch"));
  }
  /// Waits for what `run` has begun: on a GPU it may go on.
  void finish() { step_.synchronize(); }

  /// Collective: averages the gradients of all ranks and updates the weights.
  void run() {
    ++t_;
    if (optimizer_.counts_steps) {
      step_.run({{"lr", optimizer_.learning_rate}, {"t", t_}});
    } else {
      step_.run({{"lr", optimizer_.learning_rate}});
    }
  }

 private:
  static const Optimizer& find(std::string_view name) {
    const auto* found = std::ranges::find(optimizers, name, &Optimizer::name);
    if (found == optimizers.end()) {
      throw std::invalid_argument("no optimizer is called " + std::string(name) +
                                  "; there are sgd, momentum_sgd, adam and adamw");
    }
    return *found;
  }

  [[nodiscard]] coconet::Program program_of(const coconet::World& world,
                                            const std::string& name) const {
    const coconet::programs::Shipped& shipped = *coconet::programs::find(name);
    const coconet::Mesh mesh = coconet::Mesh::over(world);
    if (!half_) return shipped.build(mesh, coconet::f32);
    return shipped.with(mesh, coconet::programs::mixed(coconet::f16), {.loss_scaling = true},
                        coconet::programs::Storage::whole, {});
  }

  const Optimizer& optimizer_;
  const bool half_;
  coconet::Executable step_;
  std::vector<coconet::Half> halves_;
  int t_ = 0;
};

double accuracy(mlp::Parameters w, const Digits& digits) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (mlp::predict(w, digits.image(i)) == digits.labels[i]) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(digits.size());
}

/// Collective over `world`: trains and returns the weights. Every number of ranks computes the same
/// mathematics. With `test`, rank 0 prints its progress, and checkpoints are saved and loaded.
std::vector<float> train(const coconet::World& world, const Options& options, const Digits& digits,
                         const Digits* test) {
  constexpr std::size_t batch_size = 64;
  const auto ranks = static_cast<std::size_t>(world.size()),
             rank = static_cast<std::size_t>(world.rank());
  Update update(world, options.optimizer, options.schedule, options.half);
  std::vector<float> g(mlp::parameters), w(mlp::parameters);
  mlp::initialise(w);
  update.set_weights(w);
  const bool checkpoints = test != nullptr && !options.checkpoints.empty();
  const int done = checkpoints && options.resume ? update.load(options.checkpoints) : 0;
  if (done > 0 && rank == 0) std::printf("going on after epoch %d\n", done);
  update.get_weights(w);  // as the model has them

  std::vector<double> sum(mlp::parameters);
  for (int epoch = done + 1; epoch <= options.epochs; ++epoch) {
    // The order of the images follows from the epoch alone, whoever trains it.
    double loss = 0;
    std::size_t seen = 0;
    const std::vector<std::size_t> order = shuffled(digits.size(), static_cast<unsigned>(epoch));
    for (std::size_t begin = 0; begin < digits.size(); begin += batch_size) {
      const std::size_t batch = std::min(batch_size, digits.size() - begin);
      const std::size_t first = batch * rank / ranks,
                        last = batch * (rank + 1) / ranks;  // this rank's share

      // Sums in double and rounds once, so that how a batch is cut into shares hardly changes its
      // gradient.
      std::ranges::fill(sum, 0.0);
      for (std::size_t i = begin + first; i < begin + last; ++i) {
        loss += mlp::add_gradient(w, digits.image(order[i]), digits.labels[order[i]], sum);
      }
      seen += last - first;

      // The update averages over ranks. Shares can be uneven, so each rank hands in its sum over
      // the mean share: the average over ranks is then the average over the batch.
      const double scale =
          update.loss_scale() * static_cast<double>(ranks) / static_cast<double>(batch);
      for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(sum[i] * scale);
      update.set_gradient(g);
      update.run();
      update.get_weights(w);
    }
    if (test != nullptr && rank == 0 && (epoch == 1 || epoch % 10 == 0)) {
      std::printf("epoch %2d  loss %.4f  test accuracy %.4f\n", epoch,
                  loss / static_cast<double>(seen), accuracy(w, *test));
      std::fflush(stdout);
    }
    if (checkpoints) update.save(options.checkpoints, epoch);
  }
  return w;
}

/// Collective: prints the median time of the parameter update under each schedule.
void time_schedules(const coconet::World& world, const std::string& optimizer, bool half) {
  const std::array<std::string, 3> schedules = {"unfused", "sliced", "fused"};
  constexpr int samples = 15, steps = 50;
  std::vector<Update> updates;
  for (const std::string& schedule : schedules) {
    updates.emplace_back(world, optimizer, schedule, half);
    updates.back().set_gradient(std::vector<float>(mlp::parameters, 0.01f));
  }
  std::array<std::vector<double>, 3> times;  // microseconds of a step
  for (int sample = 0; sample < samples; ++sample) {
    for (std::size_t s = 0; s < schedules.size(); ++s) {
      updates[s].run();
      updates[s].finish();
      const auto start = std::chrono::steady_clock::now();
      for (int step = 0; step < steps; ++step) updates[s].run();
      updates[s].finish();
      const std::chrono::duration<double, std::micro> elapsed =
          std::chrono::steady_clock::now() - start;
      times[s].push_back(elapsed.count() / steps);
    }
  }
  if (world.rank() != 0) return;
  std::printf("time of one %s update of %zu parameters:\n", optimizer.c_str(), mlp::parameters);
  for (std::size_t s = 0; s < schedules.size(); ++s) {
    std::ranges::nth_element(times[s], times[s].begin() + samples / 2);
    std::printf("  %-8s %9.2f us\n", schedules[s].c_str(), times[s][samples / 2]);
  }
}

/// max |a - b| / max |b|
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float difference = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return static_cast<double>(difference) / static_cast<double>(largest);
}

void run(const Options& options) {
  const coconet::World world = coconet::World::mpi();
  const Digits digits = load_digits(options.data);
  const std::vector<std::size_t> order = shuffled(digits.size(), 0);
  const auto training_part = std::span(order).first(digits.size() * 4 / 5);
  const Digits training = pick(digits, training_part);
  const Digits test = pick(digits, std::span(order).subspan(training_part.size()));
  if (world.rank() == 0) {
    std::printf("%zu images to learn from, %zu to test with; %s, %s, ranks: %d\n", training.size(),
                test.size(), options.optimizer.c_str(), options.schedule.c_str(), world.size());
  }

  const std::vector<float> weights = train(world, options, training, &test);
  time_schedules(world, options.optimizer, options.half);
  if (world.rank() != 0) return;

  const std::vector<float> alone = train(coconet::World::self(), options, training, nullptr);
  std::printf("test accuracy %.4f, largest difference from one rank %.1e\n",
              accuracy(weights, test), relative_difference(weights, alone));
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
