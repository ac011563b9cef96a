// The shipped programs: their schedules apply, tuners find legal steps, and the formulas are those
// of torch.optim.
#include "coconet/programs.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "ir/reference/reference.h"
#include "sched/subjects.h"

using namespace coconet;

namespace {

constexpr int ranks = 2;
constexpr std::size_t n = 5;
constexpr int steps = 4;
constexpr double lr = 0.01;

double gradient(int rank, int step, std::size_t i) {
  return std::sin(1.0 + rank * 7 + step * 3 + static_cast<double>(i));
}
double average_gradient(int step, std::size_t i) {
  return (gradient(0, step, i) + gradient(1, step, i)) / 2;
}
double initial(std::size_t i) {
  return 1 + 0.5 * static_cast<double>(i);
}

/// The parameters after each step of `program`, run by the reference interpreter in f64.
std::vector<ir::Data> run(const Program& program) {
  ir::Reference reference(*program.graph(), {{"n", static_cast<std::int64_t>(n)}});
  ir::Data w(n);
  for (std::size_t i = 0; i < n; ++i) w[i] = initial(i);
  reference.set("w", ir::RankData(ranks, w));
  std::vector<ir::Data> after_step;
  for (int step = 1; step <= steps; ++step) {
    ir::RankData g(ranks, ir::Data(n));
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < n; ++i)
        g[static_cast<std::size_t>(rank)][i] = gradient(rank, step, i);
    }
    reference.set("g", g);
    reference.run({{"lr", lr}, {"t", step}});
    CHECK(reference.get("w")[0] == reference.get("w")[1]);
    after_step.push_back(reference.get("w")[0]);
  }
  return after_step;
}

/// Compares with `formula(i, step, w)`, which returns the parameter after `step` from the one
/// before.
template <class Formula>
void check_against(const Program& program, Formula formula) {
  const std::vector<ir::Data> got = run(program);
  for (std::size_t i = 0; i < n; ++i) {
    double w = initial(i);
    for (int step = 1; step <= steps; ++step) {
      w = formula(i, step, w);
      CHECK(got[static_cast<std::size_t>(step - 1)][i] == Approx(w).epsilon(1e-12));
    }
  }
}

}  // namespace

TEST_CASE("every shipped program is found by its name, and only those") {
  REQUIRE(programs::shipped().size() == 4);
  for (const programs::Shipped& shipped : programs::shipped()) {
    CHECK(programs::find(shipped.name) == &shipped);
    CHECK(shipped.build(two_ranks(), f32).name() == shipped.name);
  }
  CHECK(programs::find("lion") == nullptr);
}

TEST_CASE(
    "every shipped schedule applies to its program on any mesh and dtype, and its program survives "
    "JSON") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const std::string_view name : shipped.schedules) {
      const Schedule schedule =
          Schedule::load(std::string(shipped.name) + "-" + std::string(name) + ".json");
      for (const Mesh& mesh :
           {Mesh({{"world", 1}}), Mesh({{"dp", 3}}), Mesh({{"world", 4}, {"tp", 2}})}) {
        for (const DType dtype : {f64, f32, f16, bf16}) {
          INFO(schedule.name() << " on " << mesh.str() << ", " << to_string(dtype));
          const Program p = after(shipped.build(mesh, dtype), schedule);
          ir::verify(*p.graph());
          CHECK(Program::parse(p.json()).json() == p.json());
        }
      }
    }
  }
}

TEST_CASE("schedules do not change what a shipped program computes") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    const Program program = shipped.build(two_ranks(), f64);
    const std::vector<ir::Data> expected = run(program);
    for (const std::string_view name : shipped.schedules) {
      const Schedule schedule =
          Schedule::load(std::string(shipped.name) + "-" + std::string(name) + ".json");
      for (const Program& p : schedule.apply(program)) CHECK(run(p) == expected);
    }
  }
}

TEST_CASE("every candidate for every shipped program, after each step of its schedules, is legal") {
  std::size_t candidates = 0;
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const std::string_view name : shipped.schedules) {
      const Schedule schedule =
          Schedule::load(std::string(shipped.name) + "-" + std::string(name) + ".json");
      for (const Program& p : schedule.apply(shipped.build(two_ranks(), f32))) {
        for (const sched::Transformation* row : sched::transformations()) {
          for (const std::string& text : legal_candidates(p, row->name)) {
            CHECK_THAT(text, !Catch::StartsWith("illegal"));
            ++candidates;
          }
        }
      }
    }
  }
  CHECK(candidates > 20);
}

TEST_CASE("data parallelism runs along the axis 'world', and other axes hold the same values") {
  const Program p = programs::adam(Mesh({{"world", 2}, {"tp", 2}}));
  CHECK(type_of(p, "g") == "g: f32[n] {world: local, tp: replicated}");
  CHECK(type_of(p, "avg") == "avg: f32[n] {world: replicated, tp: replicated}");
  CHECK_THAT(refusal([] {
               (void)programs::adam(Mesh({{"pp", 2}, {"tp", 2}}));
             }),
             Catch::Contains(
                 "the layout names the axis 'world', which the mesh {pp: 2, tp: 2} does not have"));
}

TEST_CASE("sgd is torch.optim.SGD") {
  for (const double decay : {0.0, 0.1}) {
    check_against(programs::sgd(two_ranks(), f64, {decay}), [&](std::size_t i, int step, double w) {
      return w - lr * (average_gradient(step, i) + decay * w);
    });
  }
}

TEST_CASE("momentum_sgd is torch.optim.SGD with momentum, dampening and Nesterov") {
  for (const double dampening : {0.0, 0.3}) {
    for (const bool nesterov : {false, true}) {
      const double decay = 0.05;
      const double momentum = 0.8;
      std::vector<double> buffer(n);
      check_against(
          programs::momentum_sgd(two_ranks(), f64, {momentum, dampening, decay, nesterov}),
          [&](std::size_t i, int step, double w) {
            const double g = average_gradient(step, i) + decay * w;
            double& b = buffer[i];
            b = step == 1 ? g : momentum * b + (1 - dampening) * g;
            return w - lr * (nesterov ? g + momentum * b : b);
          });
    }
  }
}

TEST_CASE("adam is torch.optim.Adam") {
  for (const double decay : {0.0, 0.1}) {
    const programs::AdamOptions options{0.8, 0.95, 1e-6, decay};
    std::vector<double> m(n);
    std::vector<double> v(n);
    check_against(programs::adam(two_ranks(), f64, options), [&](std::size_t i, int step,
                                                                 double w) {
      const double g = average_gradient(step, i) + decay * w;
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double correction1 = 1 - std::pow(options.beta1, step);
      const double correction2 = 1 - std::pow(options.beta2, step);
      return w - lr / correction1 * m[i] / (std::sqrt(v[i]) / std::sqrt(correction2) + options.eps);
    });
  }
}

TEST_CASE("adamw is torch.optim.AdamW") {
  const programs::AdamWOptions options{0.8, 0.95, 1e-6, 0.2};
  std::vector<double> m(n);
  std::vector<double> v(n);
  check_against(programs::adamw(two_ranks(), f64, options), [&](std::size_t i, int step, double w) {
    const double g = average_gradient(step, i);
    w *= 1 - lr * options.weight_decay;
    m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
    v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
    const double correction1 = 1 - std::pow(options.beta1, step);
    const double correction2 = 1 - std::pow(options.beta2, step);
    return w - lr / correction1 * m[i] / (std::sqrt(v[i]) / std::sqrt(correction2) + options.eps);
  });
}

TEST_CASE("the defaults are PyTorch's") {
  CHECK(programs::SgdOptions{}.weight_decay == 0);
  const programs::MomentumSgdOptions sgd;
  CHECK((sgd.dampening == 0 && sgd.weight_decay == 0 && !sgd.nesterov));
  const programs::AdamOptions adam;
  CHECK((adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.eps == 1e-8 && adam.weight_decay == 0));
  const programs::AdamWOptions adamw;
  CHECK((adamw.beta1 == 0.9 && adamw.beta2 == 0.999 && adamw.eps == 1e-8 &&
         adamw.weight_decay == 0.01));
}
