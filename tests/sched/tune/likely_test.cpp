// What is chosen where nothing was measured, beside the best of the whole space.
#include "sched/tune/likely.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "ir/lists.h"
#include "sample.h"
#include "sched/cost/estimate.h"
#include "sched/schedule.h"
#include "sched/tune/space.h"

using namespace coconet;

namespace {

struct Case {
  Program program;
  ir::Sizes sizes;
  sched::Cluster cluster = sched::load_cluster("host-2rank");
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with_layers != nullptr) continue;  // its space is never whole
    for (const std::int64_t scale : {1, 64, 4096}) {
      const Program program = shipped.build(shipped.mesh(2), f32);
      const bool is_block = shipped.with == nullptr;
      const Sizes given = is_block ? Sizes{{"S", scale}} : Sizes{{"n", 1024 * scale}};
      all.push_back({program, ir::resolve_sizes(*ir::graph_of(program), given, {})});
    }
  }
  return all;
}

ir::Graph scheduled(const Program& program, const std::vector<sched::Step>& steps) {
  ir::Graph graph = *ir::graph_of(program);
  for (const sched::Step& step : steps) graph = sched::transform(graph, step);
  return graph;
}

double predicted(const Case& one, const ir::Graph& graph) {
  return sched::estimate(sched::lower(graph), one.sizes, one.cluster).us;
}

bool is_named(const ir::Graph& graph, const ir::Node& node) {
  return node.op == ir::Op::input || node.op == ir::Op::state || graph.find_output(node.name) >= 0;
}

}  // namespace

TEST_CASE("a few steps lead to what is predicted about as quick as the best of the space") {
  for (const Case& one : cases()) {
    if (!test::draw()) continue;
    const ir::Graph& graph = *ir::graph_of(one.program);
    const auto steps = sched::likely_steps(graph, one.sizes, one.cluster);
    const double likely = predicted(one, scheduled(one.program, steps));
    double best = predicted(one, graph);
    for (const sched::Candidate& candidate : sched::find_space(graph).candidates)
      best = std::min(best, sched::estimate(candidate.plan, one.sizes, one.cluster).us);
    INFO(graph.name << " of " << one.sizes.begin()->second << ": " << sched::to_string(steps));
    CHECK(likely <= 1.02 * best);
  }
}

TEST_CASE("without kernels that exchange data, tensors have the layouts that they had with them") {
  for (const Case& one : cases()) {
    if (!test::draw()) continue;
    const ir::Graph& graph = *ir::graph_of(one.program);
    const auto steps = sched::steps_of(Schedule::load(graph.name + "-fused.json")).steps;
    const ir::Graph with = scheduled(one.program, steps);
    const auto others = sched::steps_without_exchanges(graph, steps, one.sizes, one.cluster);
    const ir::Graph without = scheduled(one.program, others);
    INFO(graph.name << ": " << sched::to_string(others));
    for (const ir::Node& node : with.nodes()) {
      if (!is_named(with, node)) continue;
      REQUIRE(without.find(node.name) >= 0);
      CHECK(without.at(without.find(node.name)).layout == node.layout);
    }
    for (const ir::Fusion& kernel : without.fusions())
      CHECK(kernel.kind == ir::Fusion::Kind::computation);
    const auto has_sliced = [](const ir::Node& node) {
      return node.op == ir::Op::state && node.layout.front() == coconet::sliced(0);
    };
    if (std::ranges::none_of(with.nodes(), has_sliced))
      CHECK(predicted(one, without) <= predicted(one, graph));
  }
}

TEST_CASE("what is likely keeps no state sliced that may not be") {
  Case one = cases().front();
  one.program = programs::adam(Mesh({{"world", 2}}));
  const auto sliced = [&] {
    const auto steps = sched::likely_steps(*ir::graph_of(one.program), one.sizes, one.cluster);
    const ir::Graph graph = scheduled(one.program, steps);
    return std::ranges::count_if(graph.nodes(), [](const ir::Node& node) {
      return node.op == ir::Op::state && node.layout.front() == coconet::sliced(0);
    });
  };
  CHECK(sliced() == 2);
  one.program.may_slice({"m", "v"}, false);
  CHECK(sliced() == 0);
}
