// Data-parallel training of a small network on real handwritten digits. What is written is the
// forward pass (network.h): the library derives its gradients, adds the optimizer, and makes one
// program of the whole step, in which each rank works on its share of every batch.
//
//   mpirun -n 2 03_train_digits [--optimizer sgd|momentum_sgd|adam|adamw]
//                               [--schedule automatic|none] [--epochs N] [--data FILE]
//                               [--dtype f32|f64|f16] [--checkpoint DIR [--resume]]
//
// With `--dtype f16` the model and its gradients are f16, the optimizer works on a copy in f32, and
// the loss is scaled so that small gradients stay above the least of f16.
//
// With `--checkpoint DIR` every epoch ends with a checkpoint in DIR, the newest two of which stay,
// and `--resume` goes on from the newest: to the same weights, bit by bit, as without a break.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/coconet.h"
#include "digits.h"
#include "network.h"

#ifndef COCONET_SAMPLE_DIR
#define COCONET_SAMPLE_DIR "samples/03_train_digits"
#endif

namespace {

constexpr int batch_size = 64;

struct Options {
  std::string optimizer = "adam";
  std::string schedule = "automatic";
  int epochs = 50;
  coconet::DType dtype = coconet::f32;
  std::filesystem::path data = std::filesystem::path(COCONET_SAMPLE_DIR) / "data/digits.csv";
  std::filesystem::path checkpoints;  ///< a directory; empty: none
  bool resume = false;                ///< begins with the newest of them
};

/// Throws std::invalid_argument where `value` is none of `choices`.
void require_one_of(std::string_view option, const std::string& value,
                    const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, value) != choices.end()) return;
  std::string all;
  for (const std::string& choice : choices) all += (all.empty() ? "" : " or ") + choice;
  throw std::invalid_argument(std::string(option) + " is '" + value + "'; it takes " + all);
}

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
      require_one_of(name, value, {"automatic", "none"});
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
    } else if (name == "--dtype") {
      require_one_of(name, value, {"f32", "f64", "f16"});
      options.dtype = value == "f32" ? coconet::f32 : value == "f64" ? coconet::f64 : coconet::f16;
    } else {
      throw std::invalid_argument("unknown option " + std::string(name) +
                                  "; there are --optimizer, --schedule, --epochs, --data, "
                                  "--dtype, --checkpoint and --resume");
    }
  }
  if (options.resume && options.checkpoints.empty())
    throw std::invalid_argument("--resume takes --checkpoint DIR, which it goes on from");
  return options;
}

/// Collective: compiled under a schedule that `compile` chooses, or with a kernel for each op.
coconet::Executable compiled(const coconet::Program& program, const std::string& schedule,
                             const coconet::World& world, int batch) {
  if (schedule == "automatic") return coconet::compile(program, world, {{"B", batch}});
  return coconet::compile(program, coconet::Schedule(schedule), world, {{"B", batch}});
}

/// Writes `values` into `name`, in its dtype.
void write(coconet::Executable& step, std::string_view name, const std::vector<float>& values,
           coconet::DType dtype) {
  if (dtype == coconet::f32) return step.write_whole(name, values);
  if (dtype == coconet::f64)
    return step.write_whole(name, std::vector<double>(values.begin(), values.end()));
  std::vector<coconet::Half> halves(values.size());
  coconet::convert(values, std::span(halves));
  step.write_whole(name, halves);
}

/// The network in training: a step on a batch, and a test that shares its weights.
class Training {
 public:
  /// Collective.
  Training(const coconet::World& world, const Options& options, const Digits& test)
      : dtype_(options.dtype),
        optimizer_(find_optimizer(options.optimizer)),
        step_(compiled(training_step(coconet::Mesh::over(world), dtype_, optimizer_),
                       options.schedule, world, batch_size)),
        test_(compiled(evaluation(coconet::Mesh::over(world), dtype_), options.schedule, world,
                       static_cast<int>(test.size()))) {
    test_.share_states(step_);
    write(test_, "images", test.images, dtype_);
    // Random weights (Glorot & Bengio, 2010) and zero biases: the same on every machine and rank.
    std::mt19937 random(2022);
    for (const std::string name : {"w1", "w2"}) {
      const std::vector<std::int64_t> shape = step_.slice_of(name).whole;
      const double limit = std::sqrt(6.0 / static_cast<double>(shape[0] + shape[1]));
      std::vector<float> weights(static_cast<std::size_t>(shape[0] * shape[1]));
      for (float& weight : weights) {
        const double unit = static_cast<double>(random()) / 4294967296.0;  // in [0, 1)
        weight = static_cast<float>(limit * (2.0 * unit - 1.0));
      }
      write(step_, name, weights, dtype_);
      if (dtype_ == coconet::f16) step_.write_whole(name + ".master", weights);
    }
  }

  /// Collective: one step on the images that `batch` lists; returns the mean of their losses.
  double train(const Digits& digits, std::span<const std::size_t> batch) {
    const Digits picked = pick(digits, batch);
    std::vector<float> images = picked.images;
    std::vector<int> labels = picked.labels;
    images.resize(batch_size * Digits::pixels);  // the last batch of an epoch is smaller
    labels.resize(batch_size, -100);
    write(step_, "images", images, dtype_);
    step_.write_whole("labels", labels);
    run();
    return dtype_ == coconet::f64 ? step_.scalar_of<double>("loss")
                                  : static_cast<double>(step_.scalar_of<float>("loss"));
  }

  /// Collective: the share of the test's images that are recognised.
  double accuracy(const std::vector<int>& labels) {
    test_.run({});
    std::size_t right = 0;
    const std::vector<double> logits = read(test_, "logits");
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * Network::classes);
      if (std::max_element(row, row + Network::classes) - row == labels[i]) ++right;
    }
    return static_cast<double>(right) / static_cast<double>(labels.size());
  }

  /// Microseconds of a step.
  double time_step() {
    constexpr int steps = 50;
    step_.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < steps; ++step) run();
    step_.synchronize();  // on a GPU it may go on
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
               .count() /
           steps;
  }

  /// All weights, one after the other.
  std::vector<double> weights() {
    std::vector<double> all;
    for (const char* name : {"w1", "b1", "w2", "b2"}) {
      const std::vector<double> one = read(step_, name);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
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

 private:
  void run() {
    ++t_;
    if (optimizer_.counts_steps) {
      step_.run({{"lr", optimizer_.learning_rate}, {"t", t_}});
    } else {
      step_.run({{"lr", optimizer_.learning_rate}});
    }
  }

  [[nodiscard]] std::vector<double> read(coconet::Executable& from, const char* name) const {
    const auto values = [&](auto zero) {
      std::vector<decltype(zero)> all(from.count(name), zero);
      from.read(name, all);
      return all;
    };
    if (dtype_ == coconet::f64) return values(0.0);
    std::vector<float> floats(from.count(name));
    if (dtype_ == coconet::f32) {
      from.read(name, floats);
    } else {
      coconet::convert(std::span<const coconet::Half>(values(coconet::Half())), std::span(floats));
    }
    return {floats.begin(), floats.end()};
  }

  const coconet::DType dtype_;
  const Optimizer& optimizer_;
  coconet::Executable step_, test_;
  int t_ = 0;
};

/// Collective: trains for the epochs that are asked for. Every number of ranks computes the same
/// mathematics. With `reports`, rank 0 prints its progress, and checkpoints are saved and loaded.
void train(Training& training, const Options& options, const Digits& digits, const Digits& test,
           bool reports, int rank) {
  const bool checkpoints = reports && !options.checkpoints.empty();
  const int done = checkpoints && options.resume ? training.load(options.checkpoints) : 0;
  if (done > 0 && rank == 0) std::printf("going on after epoch %d\n", done);
  for (int epoch = done + 1; epoch <= options.epochs; ++epoch) {
    // The order of the images follows from the epoch alone, whoever trains it.
    const std::vector<std::size_t> order = shuffled(digits.size(), static_cast<unsigned>(epoch));
    double loss = 0;
    for (std::size_t begin = 0; begin < order.size(); begin += batch_size) {
      const auto batch =
          std::span(order).subspan(begin, std::min<std::size_t>(batch_size, order.size() - begin));
      loss += training.train(digits, batch) * static_cast<double>(batch.size());
    }
    if (reports && (epoch == 1 || epoch % 10 == 0)) {
      const double accuracy = training.accuracy(test.labels);
      if (rank == 0) {
        std::printf("epoch %2d  loss %.4f  test accuracy %.4f\n", epoch,
                    loss / static_cast<double>(digits.size()), accuracy);
        std::fflush(stdout);
      }
    }
    if (checkpoints) training.save(options.checkpoints, epoch);
  }
}

/// Collective: prints the median time of a step under the schedule that is chosen, and without.
void time_schedules(const coconet::World& world, Options options, const Digits& test) {
  constexpr int samples = 15;
  for (const char* schedule : {"none", "automatic"}) {
    options.schedule = schedule;
    Training training(world, options, test);
    (void)training.train(test, shuffled(batch_size, 0));
    std::vector<double> times;
    for (int sample = 0; sample < samples; ++sample) times.push_back(training.time_step());
    std::ranges::nth_element(times, times.begin() + samples / 2);
    if (world.rank() == 0)
      std::printf("  schedule %-9s %9.2f us a step\n", schedule, times[samples / 2]);
  }
}

/// max |a - b| / max |b|
double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

void run(const Options& options) {
  const coconet::World world = coconet::World::mpi();
  const Digits digits = load_digits(options.data);
  const std::vector<std::size_t> order = shuffled(digits.size(), 0);
  const auto training_part = std::span(order).first(digits.size() * 4 / 5);
  const Digits learned = pick(digits, training_part);
  const Digits test = pick(digits, std::span(order).subspan(training_part.size()));
  if (world.rank() == 0) {
    std::printf("%zu images to learn from, %zu to test with; %s, schedule: %s, ranks: %d\n",
                learned.size(), test.size(), options.optimizer.c_str(), options.schedule.c_str(),
                world.size());
  }

  Training training(world, options, test);
  train(training, options, learned, test, true, world.rank());
  const double accuracy = training.accuracy(test.labels);
  const std::vector<double> weights = training.weights();
  time_schedules(world, options, test);
  if (world.rank() != 0) return;

  Training alone(coconet::World::self(), options, test);
  train(alone, options, learned, test, false, 0);
  std::printf("test accuracy %.4f, largest difference from one rank %.1e\n", accuracy,
              relative_difference(weights, alone.weights()));
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
