// Optimizers as steps over tensors of a program: what they do to each is what the program of one
// tensor does, and what is wrong with what they are given is said.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "coconet/functions.h"
#include "coconet/programs.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "sched/subjects.h"

using namespace coconet;

namespace {

using programs::MasterWeights;

Mesh one_rank() {
  return Mesh({{"world", 1}});
}

/// An optimizer as both functions.
struct Optimizer {
  std::string name;
  std::function<Program(const Mesh&, programs::Precision)> whole;
  std::function<std::vector<Value>(Program&, const std::vector<Value>&, const std::vector<Value>&,
                                   const programs::ParameterOptions&)>
      over;
};

std::vector<Optimizer> optimizers() {
  return {
#define COCONET_OPTIMIZER(called, Options, summary)                                              \
  Optimizer{#called,                                                                             \
            [](const Mesh& mesh, programs::Precision of) { return programs::called(mesh, of); }, \
            [](Program& program, const std::vector<Value>& weights,                              \
               const std::vector<Value>& gradients, const programs::ParameterOptions& with) {    \
              return programs::called(program, weights, gradients, {}, with);                    \
            }},
#include "coconet/optimizers.def"
#undef COCONET_OPTIMIZER
  };
}

/// `count` numbers between -1 and 1, other ones for another `seed`.
ir::Data numbers(std::size_t count, int seed) {
  ir::Data all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(std::sin(static_cast<double>(i) * 1.7 + seed * 0.9));
  return all;
}

bool has_state(const ir::Graph& graph, const std::string& name) {
  const ir::ValueId id = graph.find(name);
  return id >= 0 && graph.at(id).op == ir::Op::state;
}

/// What `graph` has of a scalar that its program may lack.
std::map<std::string, double> scalars_of(const ir::Graph& graph, int step) {
  std::map<std::string, double> all;
  for (const auto& [name, value] : std::map<std::string, double>{{"lr", 0.01}, {"t", step}}) {
    if (graph.find(name) >= 0) all[name] = value;
  }
  return all;
}

constexpr int few_steps = 3;

/// `w` of the program of one tensor after some steps.
ir::Data alone(const Program& program, std::size_t size, int seed) {
  const ir::Graph& graph = *ir::graph_of(program);
  ir::Reference reference(graph, {{"n", static_cast<std::int64_t>(size)}});
  reference.set("w", {numbers(size, seed)});
  if (has_state(graph, "master")) reference.set("master", reference.get("w"));
  for (int step = 1; step <= few_steps; ++step) {
    reference.set("g", {numbers(size, seed + 10 * step)});
    reference.run(scalars_of(graph, step));
  }
  return reference.get("w")[0];
}

}  // namespace

TEST_CASE("a step over tensors does to each what the optimizer's program does to one") {
  struct Kind {
    DType dtype;
    MasterWeights kept = MasterWeights::copy;
  };
  const Kind kinds[] = {
      {f32}, {f64}, {f16}, {bf16}, {bf16, MasterWeights::remainders}, {bf16, MasterWeights::none}};
  for (const Optimizer& optimizer : optimizers()) {
    for (const auto& [dtype, kept] : kinds) {
      INFO(optimizer.name << " " << to_string(dtype) << " " << static_cast<int>(kept));
      Program program("step", one_rank());
      const Shape shapes[] = {{3, 4}, {5}};
      std::vector<Value> weights, gradients;
      for (const int i : {0, 1}) {
        weights.push_back(program.state("w" + std::to_string(i), dtype, shapes[i], replicated));
        gradients.push_back(program.input("g" + std::to_string(i), dtype, shapes[i], replicated));
      }
      const std::vector<Value> results =
          optimizer.over(program, weights, gradients, {.master_weights = kept, .seed = 7});
      const ir::Graph& graph = *ir::graph_of(program);
      ir::Reference reference(graph, {});
      const std::size_t sizes[] = {12, 5};
      for (const int i : {0, 1}) {
        CHECK(graph.update_of(ir::id_of(weights[i])) == ir::id_of(results[i]));
        const std::string name = weights[i].name();
        reference.set(name, {numbers(sizes[i], i)});
        if (has_state(graph, name + ".master"))
          reference.set(name + ".master", reference.get(name));
      }
      for (int step = 1; step <= few_steps; ++step) {
        for (const int i : {0, 1})
          reference.set(gradients[i].name(), {numbers(sizes[i], i + 10 * step)});
        reference.run(scalars_of(graph, step));
      }
      for (const int i : {0, 1}) {
        programs::Precision precision = dtype;
        if (is_16_bit(dtype)) precision = programs::mixed(dtype, kept, 7 + i);
        CHECK(reference.get(weights[i].name())[0] ==
              alone(optimizer.whole(one_rank(), precision), sizes[i], i));
      }
    }
  }
}

TEST_CASE("gradients of all tensors are clipped by one norm, which is an output") {
  Program program("step", one_rank());
  const Value a = program.state("a", f32, {2}, replicated);
  const Value b = program.state("b", f64, {1, 1}, replicated);
  const Value ga = program.input("ga", f32, {2}, replicated);
  const Value gb = program.input("gb", f64, {1, 1}, replicated);
  programs::sgd(program, {a, b}, {ga, gb}, {.max_norm = 3.5, .gradient_norm = true});
  ir::Reference reference(*ir::graph_of(program), {});
  reference.set("ga", {{2, 3}});
  reference.set("gb", {{6}});  // the norm is 7
  reference.run({{"lr", 1}});
  CHECK(reference.get("gradient_norm")[0][0] == 7);
  CHECK(reference.get("a")[0][0] == Approx(-1).epsilon(1e-6));
  CHECK(reference.get("a")[0][1] == Approx(-1.5).epsilon(1e-6));
  CHECK(reference.get("b")[0][0] == Approx(-3).epsilon(1e-6));
}

TEST_CASE("groups by name change the learning rate and the weight decay of their weights") {
  Program program("step", one_rank());
  std::vector<Value> weights, gradients;
  for (const char* name : {"l0.w", "l0.bias", "l1.w", "l1.bias"}) {
    weights.push_back(program.state(name, f64, {1}, replicated));
    gradients.push_back(program.input(std::string(name) + ".g", f64, {1}, replicated));
  }
  programs::sgd(program, weights, gradients, {.weight_decay = 0.5},
                {.groups = {{"*.bias", 1, 0.0}, {"l1.*", 0.25, {}}}});
  ir::Reference reference(*ir::graph_of(program), {});
  for (const Value& weight : weights) {
    reference.set(weight.name(), {{8}});
    reference.set(weight.name() + ".g", {{2}});
  }
  reference.run({{"lr", 1}});
  const double expected[] = {8 - (2 + 4), 8 - 2, 8 - 0.25 * (2 + 4), 8 - 2};
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(reference.get(weights[i].name())[0][0] == expected[i]);
}

TEST_CASE("a step whose scaled gradients are not finite is not taken, of any tensor") {
  Program program("step", one_rank());
  const Value a = program.state("a", f32, {1}, replicated);
  const Value b = program.state("b", f32, {1}, replicated);
  const Value x = program.input("x", f32, {1}, replicated);
  const programs::LossScaler scaler = programs::loss_scaler(program, {.init_scale = 1024});
  const Value loss = sum(a * x + b);
  const std::vector<Value> derivatives = gradients(loss * scaler.scale, {a, b});
  programs::adam(program, {a, b}, derivatives, {}, {.scaler = scaler});
  ir::Reference reference(*ir::graph_of(program), {});
  const double infinite = std::numeric_limits<double>::infinity();
  const double taken[] = {1, 1, 2}, scale[] = {1024, 512, 512};
  const double xs[] = {3, infinite, 3};
  double before = 0;
  for (int step = 1; step <= 3; ++step) {
    reference.set("x", {{xs[step - 1]}});
    reference.run({{"lr", 0.5}, {"t", step}});
    CHECK(reference.get("scale")[0][0] == scale[step - 1]);
    CHECK(reference.get("skipped")[0][0] == step - taken[step - 1]);
    // Adam's first steps are of the size of the learning rate.
    CHECK(reference.get("a")[0][0] == Approx(-0.5 * taken[step - 1]).epsilon(1e-6));
    CHECK(reference.get("b")[0][0] == Approx(-0.5 * taken[step - 1]).epsilon(1e-6));
    if (step == 2) CHECK(reference.get("a.m")[0][0] == before);
    before = reference.get("a.m")[0][0];
  }
}

TEST_CASE("sums of micro-batches' gradients make the step of all of them") {
  // Two programs with the same states: one adds up, one steps.
  Program adding("adding", two_ranks());
  const Value w = adding.state("w", f32, {2}, replicated);
  const Value x = adding.input("x", f32, {2}, local);
  const Value mine = as_local(w).named("mine");
  const Value loss = all_reduce(sum(mine * x), sum);
  programs::accumulate(adding, gradients(loss, {mine}));
  Program stepping("stepping", two_ranks());
  const Value weights = stepping.state("w", f32, {2}, replicated);
  const Value sums = stepping.state("mine.grad.sum", f32, {2}, local);
  programs::sgd(stepping, {weights}, {all_reduce(sums, mean)}, {.accumulation = true});
  ir::Reference first(*ir::graph_of(adding), {});
  first.set("mine.grad.sum", {{std::nan(""), 9}, {9, 9}});  // of an earlier step
  for (const int batch : {0, 1, 2, 3}) {
    first.set("x", {{1.0 + batch, 2}, {3, 4.0 * batch}});
    first.run({{"first", batch == 0 ? 1 : 0}});
  }
  ir::Reference second(*ir::graph_of(stepping), {});
  second.set("mine.grad.sum", first.get("mine.grad.sum"));
  second.run({{"lr", 1}, {"microbatches", 4}});
  for (const int rank : {0, 1})
    CHECK(second.get("w")[rank] == ir::Data{-(10 + 12) / 8.0, -(8 + 24) / 8.0});
}

TEST_CASE(
    "steps of two optimizers share the scalars of a program, and slices keep moments sliced") {
  Program program("step", two_ranks());
  const Value a = program.state("a", f32, {4}, sliced(0));
  const Value b = program.state("b", f32, {3}, replicated);
  const Value ga = program.input("ga", f32, {4}, sliced(0));
  const Value gb = program.input("gb", f32, {3}, replicated);
  programs::adamw(program, {a}, {ga}, {.max_norm = 1});
  programs::radam(program, {b}, {gb}, {.max_norm = 1});
  const ir::Graph& graph = *ir::graph_of(program);
  CHECK(graph.at(graph.find("a.m")).layout == ir::Placements{sliced(0)});
  CHECK_FALSE(graph.at(graph.find("a.m")).attributes.may_slice);
  CHECK(graph.at(graph.find("b.m")).attributes.may_slice);
  CHECK_FALSE(graph.at(graph.find("b")).attributes.may_slice);
}

TEST_CASE("what a step over tensors is given wrongly is said, and the program stays as it was") {
  Program program("step", two_ranks());
  const Value w = program.state("w", f32, {2}, replicated);
  const Value v = program.state("v", f32, {2}, replicated);
  const Value x = program.input("x", f32, {2}, local);
  const Value whole = program.input("whole", f32, {2}, replicated);
  const Value halves = program.input("halves", f16, {2}, replicated);
  const Value taken = program.state("w.m", f32, {2}, replicated);
  Program other("other", two_ranks());
  const Value far = other.state("far", f32, {2}, replicated);
  const std::string before = program.str();
  const auto refused = [&](const std::vector<Value>& weights, const std::vector<Value>& gradients,
                           const programs::AdamWOptions& options = {},
                           const programs::ParameterOptions& parameters = {}) {
    std::string text =
        refusal([&] { programs::adamw(program, weights, gradients, options, parameters); });
    CHECK(program.str() == before);
    const std::string start = "in program 'step', adamw: ";
    return text.starts_with(start) ? text.substr(start.size()) : text;
  };
  CHECK(refused({}, {}) == "it was given no weights");
  CHECK(refused({w, v}, {whole}) == "it was given 2 weights and 1 gradients; each weight has one");
  CHECK(refused({w, w}, {whole, whole}) == "'w' is given twice");
  CHECK(refused({Value()}, {whole}) ==
        "an empty Value, which was declared and has not been assigned, is no weight");
  CHECK(refused({w}, {1.0}) == "a constant is no gradient");
  CHECK(refused({far}, {whole}) == "'far' is a value of another Program");
  CHECK(refused({whole}, {whole}) ==
        "whole: f32[2] replicated; weights are states, which it updates");
  CHECK(refused({w}, {x}) ==
        "the gradient of w: f32[2] replicated is x: f32[2] local; it must have that shape, layout "
        "and dtype: all_reduce it over the ranks");
  CHECK(refused({w}, {halves}) ==
        "the gradient of w: f32[2] replicated is halves: f16[2] replicated; it must have that "
        "shape, layout and dtype");
  CHECK(refused({w}, {whole}) ==
        "in program 'step', 'w.m' (state): the name is taken; every value needs a name of its own");
  CHECK(refused({v}, {whole}, {.groups = true}) ==
        "`groups` of the options are numbers for each buffer of a scattered weight, and v: f32[2] "
        "replicated is none; give groups by name, ParameterOptions::groups");
  CHECK(refused({v}, {whole}, {.loss_scaling = true}) ==
        "loss scaling is asked for by ParameterOptions::scaler, whose `scale` the loss is "
        "multiplied by; programs::loss_scaler makes it");
  CHECK(refused({v}, {whole}, {}, {.groups = {{"v*"}, {"bias"}}}) ==
        "no weight is like the group 'bias'; they are v");
  CHECK(refused({v}, {whole}, {}, {.groups = {{"v", -1}}}) ==
        "adamw, group 'v': lr_scale is -1; it must be 0 or more");
  CHECK(refused({v}, {whole}, {.beta1 = 2}) == "adamw: beta1 is 2; it must be in [0, 1)");
  CHECK(refusal([&] {
          programs::rprop(program, {v}, {whole}, {}, {.groups = {{"v", 1, 0.1}}});
        }) == "in program 'step', rprop: the group 'v' has a weight_decay, which it does not");
  CHECK(program.str() == before);
  CHECK(refused({v}, {whole}, {.groups = true}, {.groups = {{"v", 1, 0.1}}}) ==
        "`groups` of the options are numbers for each buffer of a scattered weight, and v: f32[2] "
        "replicated is none; give groups by name, ParameterOptions::groups");
  const Value half = program.state("half", f16, {2}, replicated);
  CHECK(refusal([&] {
          programs::sgd(program, {half}, {halves}, {},
                        {.master_weights = MasterWeights::remainders});
        }) ==
        "in program 'step', sgd: 'half': master weights are kept as remainders beside a model in "
        "bf16, not in f16; keep copies of them");
}

TEST_CASE("a scaler, and a norm that is an output, serve one step") {
  Program program("step", one_rank());
  Program other("other", one_rank());
  const Value a = program.state("a", f32, {2}, replicated);
  const Value b = program.state("b", f32, {2}, replicated);
  const Value g = program.input("g", f32, {2}, replicated);
  // A value of a name that the step would give does not matter.
  const Value taken = (g + 1).named("a.gradient");
  const programs::LossScaler scaler = programs::loss_scaler(program);
  const programs::LossScaler far = programs::loss_scaler(other);
  const auto refused = [&](const Value& weight, const programs::SgdOptions& options,
                           const std::optional<programs::LossScaler>& with) {
    const std::string before = program.str() + other.str();
    std::string text =
        refusal([&] { programs::sgd(program, {weight}, {g}, options, {.scaler = with}); });
    CHECK(program.str() + other.str() == before);
    return text;
  };
  CHECK(refused(a, {}, far) ==
        "in program 'step', sgd: '" + far.scale.name() + "' is a value of another Program");
  CHECK(refused(a, {}, programs::LossScaler{}) ==
        "in program 'step', sgd: an empty Value, which was declared and has not been assigned, is "
        "no part of a LossScaler; programs::loss_scaler makes them");
  programs::LossScaler wrong = scaler;
  wrong.constants.growth_factor = 0;
  CHECK(refused(a, {}, wrong) == "sgd: growth_factor is 0; it must be more than 1");
  programs::sgd(program, {a}, {g}, {.max_norm = 1, .gradient_norm = true}, {.scaler = scaler});
  CHECK(refused(b, {}, scaler) ==
        "in program 'step', sgd: 'scale' serves another optimizer of the program already: one step "
        "updates all weights whose loss a scaler scales");
  CHECK(refused(b, {.gradient_norm = true}, {}) ==
        "in program 'step', sgd: the program has an output 'gradient_norm' already; ask one "
        "optimizer for it");
  Program taking("taking", one_rank());
  (void)taking.input("growth", f32, {}, replicated);
  const std::string before = taking.str();
  CHECK(refusal([&] { (void)programs::loss_scaler(taking); }) ==
        "in program 'taking', 'growth' (state): the name is taken; every value needs a name of its "
        "own");
  CHECK(taking.str() == before);
}

TEST_CASE("sums of what is no gradient are refused, and leave nothing") {
  Program program("step", one_rank());
  const Value g = program.input("g", f32, {2}, replicated);
  const Value whole = program.input("whole", i32, {2}, replicated);
  const std::string before = program.str();
  const auto refused = [&](const std::vector<Value>& gradients) {
    std::string text = refusal([&] { programs::accumulate(program, gradients); });
    CHECK(program.str() == before);
    return text;
  };
  CHECK(refused({g, g}) ==
        "in program 'step', 'g.sum' (state): the name is taken; every value needs a name of its "
        "own");
  CHECK(refused({g, 1.0}) == "in program 'step', accumulate: a constant is no gradient");
  CHECK(refused({g, whole}) ==
        "in program 'step', accumulate: whole: i32[2] replicated; gradients are tensors of floats");
  CHECK(programs::accumulate(program, {g}).size() == 1);
}
