// `coconet run --state-dict`: states whole, under PyTorch's names, with the values of its formulas.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "child_process.h"
#include "cli/command.h"
#include "cli/npy_files.h"
#include "coconet/programs.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

constexpr double lr = 0.5;
const std::vector<float> first = {1, 2, -3, 4, 5}, second = {3, -4, 1, 0, -1};
const std::vector<float> average = {2, -1, -1, 2, 2}, weights = {10, 20, 30, 40, 50};

/// What a state is after a first step with the gradient `g` of an element.
using Formula = std::function<double(double g)>;

/// The states of torch.optim's optimizers beside the parameters and the step, and of the others
/// those of the reference implementations.
std::map<std::string, std::map<std::string, Formula>> states_of_optimizers() {
  const auto part = [](double share) { return [=](double g) { return share * g; }; };
  const auto square = [](double share) { return [=](double g) { return share * g * g; }; };
  const std::map<std::string, Formula> adam = {{"exp_avg", part(0.1)},
                                               {"exp_avg_sq", square(0.001)}};
  std::map<std::string, Formula> nadam = adam;
  nadam["mu_product"] = [](double) { return 0.9 * (1 - 0.5 * std::pow(0.96, 0.004)); };
  const double norm = std::sqrt(14.0);
  return {
      {"sgd", {}},
      {"momentum_sgd", {{"momentum_buffer", part(1)}}},
      {"adam", adam},
      {"adamw", adam},
      {"adamax",
       {{"exp_avg", part(0.1)}, {"exp_inf", [](double g) { return std::fabs(g) + 1e-8; }}}},
      {"nadam", nadam},
      {"radam", adam},
      {"adagrad", {{"sum", square(1)}}},
      {"adadelta",
       {{"square_avg", square(0.1)},
        {"acc_delta", [](double g) { return 0.1 * 1e-6 * g * g / (0.1 * g * g + 1e-6); }}}},
      {"rmsprop", {{"square_avg", square(0.01)}}},
      {"rprop", {{"prev", part(1)}, {"step_size", [](double) { return lr; }}}},
      {"lion", {{"exp_avg", part(0.01)}}},
      {"lamb", adam},
      {"lars", {{"momentum_buffer", nullptr}}},
      {"novograd",
       {{"exp_avg", [=](double g) { return g / (norm + 1e-8); }},
        {"exp_avg_sq", [](double) { return 14.0; }}}},
  };
}

std::set<std::string> states_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().stem().string());
  return names;
}

std::vector<float> read_state(const std::filesystem::path& directory, const std::string& name) {
  return values_of(cli::read_npy((directory / (name + ".npy")).string()));
}

/// The arguments that give two ranks the gradients and the weights above.
std::string data_in(const std::filesystem::path& directory) {
  write_file(directory / "g0.npy", cli::npy_text(floats({5}, first)));
  write_file(directory / "g1.npy", cli::npy_text(floats({5}, second)));
  write_file(directory / "w.npy", cli::npy_text(floats({5}, weights)));
  const std::string at = directory.string();
  return " --world local:2 --set n=5 --scalar lr=0.5 --input g=" + at + "/g%r.npy --input w=" + at +
         "/w.npy ";
}

Said run_into(const std::filesystem::path& directory, const std::string& arguments) {
  Said said = coconet_command("run " + arguments + " --state-dict " + directory.string());
  INFO(arguments << ": " << said.err);
  CHECK(said.code == 0);
  return said;
}

}  // namespace

TEST_CASE("a state dict has the names of torch.optim, and its values after a step") {
  const ScratchDirectory scratch;
  const std::string data = data_in(scratch.path());
  const auto optimizers = states_of_optimizers();
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with != nullptr) CHECK(optimizers.contains(std::string(shipped.name)));
  }
  for (const auto& [name, states] : optimizers) {
    INFO(name);
    const auto directory = scratch.path() / "of" / name;  // both are made
    run_into(directory, name + " --schedule fused" + data);
    std::set<std::string> expected = {"param", "step"};
    for (const auto& [state, formula] : states) expected.insert(state);
    CHECK(states_in(directory) == expected);
    CHECK(cli::read_npy((directory / "step.npy").string()).shape.empty());
    CHECK(read_state(directory, "step") == std::vector<float>{1});
    for (const auto& [state, formula] : states) {
      if (formula == nullptr) continue;
      const std::vector<float> got = read_state(directory, state);
      REQUIRE((got.size() == 5 || got.size() == 1));
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO(state << " at " << i);
        CHECK(double{got[i]} == Approx(formula(double{average[i]})).epsilon(1e-6));
      }
    }
  }
  std::vector<float> after = weights;
  for (std::size_t i = 0; i < after.size(); ++i) after[i] -= 0.5F * average[i];
  CHECK(read_state(scratch.path() / "of" / "sgd", "param") == after);
}

TEST_CASE("states are whole under any schedule, and those that --output writes") {
  const ScratchDirectory scratch;
  const std::string at = scratch.path().string() + "/";
  for (const std::string schedule : {"unfused", "sliced", "fused"}) {
    const std::string arguments =
        "adam --dtype bf16 --master-weights copy --world local:3 --set n=1030 --schedule " +
        schedule + " --iters 2 --warmup 3 --output m=" + at + "m.npy --output w=" + at +
        "w.npy --output master=" + at + "master.npy";
    for (const std::string scattered : {"", " --scattered"}) {
      const auto directory = scratch.path() / (schedule + (scattered.empty() ? "" : "s"));
      run_into(directory, arguments + scattered);
      CHECK(states_in(directory) ==
            std::set<std::string>{"param", "master_param", "step", "exp_avg", "exp_avg_sq"});
      CHECK(read_file(directory / "exp_avg.npy") == read_file(at + "m.npy"));
      CHECK(read_file(directory / "param.npy") == read_file(at + "w.npy"));
      CHECK(read_file(directory / "master_param.npy") == read_file(at + "master.npy"));
      CHECK(read_state(directory, "exp_avg").size() == 1030);
      CHECK(read_state(directory, "step") == std::vector<float>{5});
    }
  }
}

TEST_CASE("steps that loss scaling skips are not counted") {
  const ScratchDirectory scratch;
  const std::string run =
      "sgd --schedule fused --loss-scaling --scalar t=7" + data_in(scratch.path());
  const auto with_t = "adam" + run.substr(3);
  run_into(scratch.path() / "taken", with_t);
  CHECK(states_in(scratch.path() / "taken") == std::set<std::string>{"param", "step", "exp_avg",
                                                                     "exp_avg_sq", "scale",
                                                                     "_growth_tracker", "skipped"});
  CHECK(read_state(scratch.path() / "taken", "step") == std::vector<float>{7});
  std::vector<float> bad = second;
  bad[3] = std::numeric_limits<float>::infinity();
  write_file(scratch.path() / "g1.npy", cli::npy_text(floats({5}, bad)));
  run_into(scratch.path() / "skipped", with_t);
  CHECK(read_state(scratch.path() / "skipped", "step") == std::vector<float>{6});
  CHECK(read_state(scratch.path() / "skipped", "skipped") == std::vector<float>{1});
  CHECK(read_state(scratch.path() / "skipped", "scale") == std::vector<float>{32768});
  CHECK(read_state(scratch.path() / "skipped", "param") == weights);
}

TEST_CASE("sums of gradients are no part of a state dict") {
  const ScratchDirectory scratch;
  run_into(scratch.path() / "d",
           "sgd --accumulation --world local:2 --set n=5 --iters 1 --warmup 0");
  CHECK(states_in(scratch.path() / "d") == std::set<std::string>{"param", "step"});
}

TEST_CASE("state dicts are refused in a sentence where there can be none") {
  const ScratchDirectory scratch;
  const std::string file = scratch.path().string() + "/file";
  write_file(file, "");
  CHECK_THAT(complaint("run mlp_block --state-dict " + file + "s", "", 2),
             Contains("--state-dict is for the optimizers that ship, whose states have names in "
                      "PyTorch, not for mlp_block."));
  CHECK_THAT(complaint("run sgd --set n=5 --state-dict " + file + "%r", "", 2),
             Contains("--state-dict writes whole tensors, and takes a directory without %r, not '" +
                      file + "%r'."));
  for (const std::string& directory : {file, file + "/below"}) {
    CHECK_THAT(complaint("run sgd --set n=5 --state-dict " + directory),
               Contains("Cannot make the directory '" + directory + "' of --state-dict: "));
  }
}
