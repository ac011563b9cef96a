// The shipped programs: their schedules apply, tuners find legal steps, and formulas hold where
// optimizer_pairs_test.cpp, which compares each with PyTorch, does not go.
#include "coconet/programs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "ir/access.h"
#include "ir/reference/reference.h"
#include "precisions.h"
#include "sample.h"
#include "sched/subjects.h"

using namespace coconet;

namespace {

constexpr int ranks = 2;
constexpr std::size_t elements = 5;
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
  ir::Reference reference(*ir::graph_of(program), {{"n", static_cast<std::int64_t>(elements)}});
  ir::Data w(elements);
  for (std::size_t i = 0; i < elements; ++i) w[i] = initial(i);
  reference.set("w", ir::RankData(ranks, w));
  if (const ir::ValueId master = ir::graph_of(program)->find("master"); master >= 0) {
    ir::RankData parts;
    for (int rank = 0; rank < ranks; ++rank) {
      const ir::Part part = reference.part(master, rank);
      const auto begin = w.begin() + part.begin[0];
      parts.emplace_back(begin, begin + part.extent[0]);
    }
    reference.set("master", parts);
  }
  std::vector<ir::Data> after_step;
  for (int step = 1; step <= steps; ++step) {
    ir::RankData g(ranks, ir::Data(elements));
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < elements; ++i)
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
  for (std::size_t i = 0; i < elements; ++i) {
    double w = initial(i);
    for (int step = 1; step <= steps; ++step) {
      w = formula(i, step, w);
      CHECK(got[static_cast<std::size_t>(step - 1)][i] == Approx(w).epsilon(1e-12));
    }
  }
}

/// Meshes of several shapes that a program runs on.
std::vector<Mesh> meshes_of(const programs::Shipped& shipped) {
  if (shipped.stages == 1)
    return {Mesh({{"world", 1}}), Mesh({{"dp", 3}}), Mesh({{"world", 4}, {"tp", 2}})};
  return {Mesh({{"pp", 2}, {"tp", 1}}), Mesh({{"pp", 3}, {"tp", 3}}), Mesh({{"tp", 2}, {"pp", 2}})};
}

bool is_optimizer(const programs::Shipped& shipped) {
  return shipped.with != nullptr;
}

/// Equal bits, but where a reduction over elements adds in the order of the slices, and no 16 bits
/// round that away.
void check_same(const Program& program, const std::vector<ir::Data>& got,
                const std::vector<ir::Data>& expected) {
  const auto& nodes = ir::graph_of(program)->nodes();
  const bool reduces = std::any_of(nodes.begin(), nodes.end(), [](const ir::Node& node) {
    return node.op == ir::Op::reduction;
  });
  if (!reduces || node(program, "w").dtype != f64) {
    CHECK(got == expected);
    return;
  }
  for (std::size_t step = 0; step < got.size(); ++step) {
    for (std::size_t i = 0; i < elements; ++i)
      CHECK(got[step][i] == Approx(expected[step][i]).epsilon(1e-14));
  }
}

}  // namespace

TEST_CASE("every shipped program is found by its name, and only those") {
  REQUIRE(programs::shipped().size() == 19);
  for (const programs::Shipped& shipped : programs::shipped()) {
    CHECK(programs::find(shipped.name) == &shipped);
    for (const programs::Precision& precision : shipped.precisions)
      CHECK(shipped.build(shipped.mesh(2), precision).name() == shipped.name);
  }
  CHECK(programs::find("adan") == nullptr);
}

TEST_CASE(
    "every shipped schedule applies to its program on any mesh and dtype, and its program survives "
    "JSON") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const std::string_view name : shipped.schedules) {
      const Schedule schedule =
          Schedule::load(std::string(shipped.name) + "-" + std::string(name) + ".json");
      for (const Mesh& mesh : meshes_of(shipped)) {
        for (const programs::Precision& precision : shipped.precisions) {
          INFO(schedule.name() << " on " << mesh.str() << ", " << test::to_text(precision));
          const Program p = after(shipped.build(mesh, precision), schedule);
          ir::verify(*ir::graph_of(p));
          CHECK(Program::parse(p.json()).json() == p.json());
        }
      }
    }
  }
}

TEST_CASE("schedules for nodes apply to their programs on meshes of nodes") {
  int programs_for_nodes = 0;
  for (const programs::Shipped& shipped : programs::shipped()) {
    const std::string program(shipped.name);
    if (shipped.across_nodes.empty()) {
      CHECK_THROWS_WITH(
          shipped.mesh_of_nodes(4, 2),
          program + " has no schedule for a mesh of nodes; only the optimizers have one");
      continue;
    }
    ++programs_for_nodes;
    for (const std::string_view name : shipped.across_nodes) {
      const Schedule schedule = Schedule::load(program + "-" + std::string(name) + ".json");
      for (const int nodes : {1, 2, 3}) {
        const Mesh mesh = shipped.mesh_of_nodes(2 * nodes, nodes);
        for (const programs::Precision& precision : shipped.precisions) {
          INFO(schedule.name() << " on " << mesh.str() << ", " << test::to_text(precision));
          const Program p = after(shipped.build(mesh, precision), schedule);
          ir::verify(*ir::graph_of(p));
          CHECK(Program::parse(p.json()).json() == p.json());
        }
      }
    }
    CHECK_THROWS_WITH(shipped.mesh_of_nodes(3, 2),
                      program + " on 2 nodes runs on as many ranks of each, not on 3 in all");
  }
  CHECK(programs_for_nodes == 15);
}

TEST_CASE("schedules do not change what a shipped optimizer computes") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (!is_optimizer(shipped)) continue;
    for (const programs::Precision& precision : {programs::Precision(f64), programs::mixed(f16)}) {
      const Program program = shipped.build(two_ranks(), precision);
      const std::vector<ir::Data> expected = run(program);
      for (const std::string_view name : shipped.schedules) {
        const Schedule schedule =
            Schedule::load(std::string(shipped.name) + "-" + std::string(name) + ".json");
        for (const Program& p : schedule.apply(program)) check_same(program, run(p), expected);
      }
    }
  }
}

TEST_CASE("every candidate for every shipped program, after each step of its schedules, is legal") {
  std::size_t candidates = 0;
  for (const auto& [shipped, precision] : test::usual_programs()) {
    for (const std::string_view name : shipped.schedules) {
      if (!test::draw()) continue;
      const Schedule schedule =
          Schedule::load(std::string(shipped.name) + "-" + std::string(name) + ".json");
      const Program program = shipped.build(shipped.mesh(2 * shipped.stages), precision);
      for (const Program& p : schedule.apply(program)) {
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

TEST_CASE("nadam is torch.optim.NAdam, whose product of momenta needs no state") {
  for (const double momentum_decay : {0.0, 1e-7, 0.004, 0.5, 200.0}) {
    for (const bool decoupled : {false, true}) {
      const programs::NAdamOptions options{0.8, 0.95, 1e-6, 0.1, momentum_decay, decoupled};
      std::vector<double> m(elements), v(elements), product(elements, 1);
      check_against(
          programs::nadam(two_ranks(), f64, options), [&](std::size_t i, int step, double w) {
            const double g = average_gradient(step, i) + (decoupled ? 0 : 0.1 * w);
            if (decoupled) w *= 1 - lr * 0.1;
            const auto momentum = [&](int t) {
              return options.beta1 * (1 - 0.5 * std::pow(0.96, t * momentum_decay));
            };
            product[i] *= momentum(step);
            m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
            v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
            const double root = std::sqrt(v[i] / (1 - std::pow(options.beta2, step))) + options.eps;
            const double next = momentum(step + 1);
            return w - lr * (1 - momentum(step)) / (1 - product[i]) * g / root -
                   lr * next / (1 - product[i] * next) * m[i] / root;
          });
    }
  }
}

TEST_CASE("radam is torch.optim.RAdam, in its first steps and later ones") {
  // The length of the average passes 5 in the fourth step of 0.95, in the sixth of 0.999.
  for (const double beta2 : {0.3, 0.6, 0.95, 0.999}) {
    for (const bool decoupled : {false, true}) {
      const programs::RAdamOptions options{0.8, beta2, 1e-6, 0.1, decoupled};
      std::vector<double> m(elements), v(elements);
      check_against(programs::radam(two_ranks(), f64, options), [&](std::size_t i, int step,
                                                                    double w) {
        const double g = average_gradient(step, i) + (decoupled ? 0 : 0.1 * w);
        if (decoupled) w *= 1 - lr * 0.1;
        m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        const double kept = std::pow(beta2, step);
        const double limit = 2 / (1 - beta2) - 1;
        const double length = limit - 2 * step * kept / (1 - kept);
        const double m_hat = m[i] / (1 - std::pow(options.beta1, step));
        if (length <= 5) return w - lr * m_hat;
        const double r =
            std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
        return w - lr * m_hat * r * std::sqrt(1 - kept) / (std::sqrt(v[i]) + options.eps);
      });
    }
  }
}

TEST_CASE("the ratio of lamb is 1 where a norm is 0") {
  const auto first_step = [](double w, double g) {
    ir::Reference reference(*ir::graph_of(programs::lamb(two_ranks(), f64, {.weight_decay = 0})),
                            {{"n", 1}});
    reference.set("w", ir::RankData(ranks, ir::Data{w}));
    reference.set("g", ir::RankData(ranks, ir::Data{g}));
    reference.run({{"lr", lr}, {"t", 1}});
    return reference.get("w")[0][0];
  };
  // The first direction of Adam is g / (|g| + eps), 0.5 / 0.500001 here.
  CHECK(first_step(0, 0.5) == Approx(-lr * 0.5 / 0.500001).epsilon(1e-12));
  CHECK(first_step(3, 0) == 3);
  CHECK(first_step(3, 0.5) == Approx(3 - lr * 3).epsilon(1e-12));
}

namespace {

/// The parameter of `program`, in f32 and 1 at first, after steps with `gradients`.
std::vector<double> after_gradients(const Program& program, const std::vector<double>& gradients) {
  ir::Reference reference(*ir::graph_of(program), {{"n", 1}});
  reference.set("w", ir::RankData(ranks, ir::Data{1}));
  std::vector<double> w;
  for (const double gradient : gradients) {
    reference.set("g", ir::RankData(ranks, ir::Data{gradient}));
    reference.run({{"lr", lr}, {"t", static_cast<double>(w.size() + 1)}});
    w.push_back(reference.get("w")[0][0]);
  }
  return w;
}

}  // namespace

TEST_CASE("a gradient that is no number moves no weight of rprop, as in torch.optim.Rprop") {
  const double nan = std::nan("");
  const std::vector<double> w = after_gradients(programs::rprop(two_ranks()), {0.5, nan, 0.5, 0.5});
  const std::vector<double> expected = {0.99, 0.99, 0.98, 0.968};
  for (std::size_t i = 0; i < w.size(); ++i) CHECK(w[i] == Approx(expected[i]));
}

TEST_CASE("a gradient whose squares overflow leaves a weight in place, as in torch.optim.RMSprop") {
  for (const double huge : {3e20, 3e21, 3e38}) {
    for (const bool centered : {false, true}) {
      const std::vector<double> w = after_gradients(
          programs::rmsprop(two_ranks(), f32, {.centered = centered}), {0.5, huge, 0.5, 0.5});
      CHECK(w[0] == Approx(centered ? 0.899496 : 0.9));
      for (std::size_t i = 1; i < w.size(); ++i) CHECK(w[i] == w[0]);
    }
  }
}

TEST_CASE("no finite gradient makes a weight NaN") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (!is_optimizer(shipped)) continue;
    for (const double huge : {1e15, 1e20, 1e38}) {
      INFO(shipped.name << " " << huge);
      for (const double w : after_gradients(shipped.build(two_ranks(), f32), {0.5, huge, 0.5, 0.5}))
        CHECK(std::isfinite(w));
    }
  }
}

TEST_CASE("mixed precision keeps f32 parameters and moments of a 16-bit model") {
  const Program p = programs::adam(two_ranks(), programs::mixed(bf16));
  CHECK(p.name() == "adam");
  CHECK(type_of(p, "g") == "g: bf16[n] local");
  CHECK(type_of(p, "avg") == "avg: bf16[n] replicated");
  CHECK(type_of(p, "w") == "w: bf16[n] replicated");
  for (const char* name : {"master", "m", "v"})
    CHECK(type_of(p, name) == std::string(name) + ": f32[n] replicated");
  for (const char* name : {"master", "m", "v"}) {
    for (const char* schedule : {"adam-sliced.json", "adam-fused.json"}) {
      CHECK(type_of(after(p, Schedule::load(schedule)), name) ==
            std::string(name) + ": f32[n] sliced(0)");
    }
  }
  CHECK(type_of(after(p, Schedule::load("adam-fused.json")), "w.all_gather") ==
        "w.all_gather: bf16[n] replicated");
}

TEST_CASE("a mixed program does to its master weights what the f32 one does, and rounds") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (!is_optimizer(shipped)) continue;
    INFO(shipped.name);
    const Program plain = shipped.build(two_ranks(), f32);
    const Program mixed = shipped.build(two_ranks(), programs::mixed(f16));
    ir::Reference expected(*ir::graph_of(plain), {{"n", 4}});
    ir::Reference got(*ir::graph_of(mixed), {{"n", 4}});
    // Gradients whose average f16 holds exactly.
    const ir::RankData g = {{0.5, -0.25, 1.5, -2}, {1.5, 0.75, -0.5, 1}};
    const ir::RankData w(ranks, {1, -0.375, 0.625, 2});
    expected.set("w", w);
    got.set("w", w);
    got.set("master", w);
    for (int step = 1; step <= steps; ++step) {
      expected.set("g", g);
      got.set("g", g);
      expected.run({{"lr", lr}, {"t", step}});
      got.run({{"lr", lr}, {"t", step}});
      CHECK(got.get("master") == expected.get("w"));
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(got.get("w")[0][i] == round_to(f16, expected.get("w")[0][i]));
    }
  }
}

TEST_CASE("mixed precision is for 16-bit models") {
  CHECK(refusal([] { (void)programs::mixed(f64); }) ==
        "mixed precision is for a model in f16 or bf16, not in f64");
}
