// Estimates: what plans move is counted by hand, and what binds them follows.
#include "sched/cost/estimate.h"

#include <catch2/catch.hpp>

#include "coconet/error.h"
#include "coconet/programs.h"
#include "ir/access.h"
#include "refusal.h"
#include "sched/subjects.h"

using namespace coconet;

namespace {

constexpr std::int64_t n = 1 << 20;
constexpr double tensor = 4.0 * n;  // bytes of f32[n]
const std::map<std::string, std::int64_t> sizes = {{"n", n}};

sched::Plan plan_of(const Program& program, const std::string& schedule) {
  return sched::lower(*ir::graph_of(
      after(program, Schedule::load(ir::graph_of(program)->name + "-" + schedule + ".json"))));
}

Program adam(int ranks) {
  return programs::find("adam")->build(Mesh({{"world", ranks}}), f32);
}

/// One whose numbers are easy to divide by.
sched::Cluster round_cluster(int ranks) {
  sched::Cluster cluster;
  cluster.name = "round";
  cluster.ranks_per_node = ranks;
  cluster.memory = {{1, 10}};
  cluster.launch_us = 1;
  cluster.barrier_us = 100;
  cluster.pointwise_gop_per_s = 1e9;
  cluster.matmul_gop_per_s = {{DType::f32, 1e9}};
  return cluster;
}

}  // namespace

TEST_CASE("the work of adam's schedules is what their tensors are long") {
  const auto work = [&](const std::string& schedule) {
    return sched::work_of(plan_of(adam(4), schedule), sizes);
  };
  const sched::PlanWork unfused = work("unfused");
  REQUIRE(unfused.steps.size() == 2);
  CHECK(unfused.steps[0].exchanges.front().bytes == tensor);
  CHECK(unfused.steps[0].bytes == 0);
  CHECK(unfused.steps[1].bytes == 7 * tensor);  // avg, w, m, v are read; w, m, v written
  CHECK(unfused.footprint == 5 * tensor);       // g, avg, w, m, v

  const sched::PlanWork fused = work("fused");
  REQUIRE(fused.steps.size() == 1);
  CHECK(fused.steps[0].bytes == 5 * tensor / 4);  // of slices: m, v, w read; m, v written
  REQUIRE(fused.steps[0].exchanges.size() == 2);
  CHECK(fused.steps[0].exchanges[0].op == ir::Op::reduce_scatter);
  CHECK(fused.steps[0].exchanges[0].bytes == tensor);
  CHECK(fused.steps[0].exchanges[1].op == ir::Op::all_gather);
  CHECK(fused.steps[0].exchanges[1].bytes == tensor);
  CHECK(fused.footprint == 2.5 * tensor);
}

TEST_CASE("a matmul takes two operations a term, and a bias is read once") {
  const Program block = programs::find("mlp_block")->build(Mesh({{"world", 2}}), f32);
  const std::map<std::string, std::int64_t> dims = [&] {
    std::map<std::string, std::int64_t> found;
    for (const Dim& dim : ir::graph_of(block)->dims) found[dim.name] = dim.extent;
    return found;
  }();
  const sched::Plan plan = plan_of(block, "unfused");
  const sched::PlanWork work = sched::work_of(plan, dims);
  REQUIRE(work.steps.front().kind == sched::Work::Kind::matmul);
  // [4, 128, 3072 / 2] x [3072 / 2, 768]
  CHECK(work.steps.front().operations == 2.0 * 4 * 128 * 1536 * 768);
  const double elements = 4.0 * 128 * 768;
  CHECK(work.steps.back().bytes == Approx(4 * (3 * elements + 768)));  // sum, r, out and b
}

TEST_CASE("a view reads of its operand what the kernel's part takes, without memory of its own") {
  Program p("views", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {100, 60}, replicated);
  const Value y = p.input("y", f32, {60, 100}, sliced(0));
  p.output("z", (y + transpose(x, {1, 0})).named("z"));
  const sched::PlanWork work = sched::work_of(sched::lower(*ir::graph_of(p)), {});
  REQUIRE(work.steps.size() == 1);
  CHECK(work.steps[0].bytes == 3 * 4.0 * 30 * 100);
}

TEST_CASE("ranks that share memory read and write what they exchange") {
  const sched::Cluster cluster = round_cluster(2);
  const sched::Estimate fused = estimate(plan_of(adam(2), "fused"), sizes, cluster);
  // 2.5 tensors of slices, one read of all ranks, one written to them, at 10 GB/s
  CHECK(fused.steps.front().memory == Approx(4.5 * tensor / 10e3));
  CHECK(fused.steps.front().latency == 1 + 2 * 100);
  CHECK(fused.us == Approx(201 + 4.5 * tensor / 10e3));
  CHECK(fused.steps.front().bound() == "memory");
  const sched::Estimate unfused = estimate(plan_of(adam(2), "unfused"), sizes, cluster);
  CHECK(unfused.us == Approx(200 + 2 * tensor / 10e3 + 1 + 7 * tensor / 10e3));
}

TEST_CASE("links bind where they are slower than memory") {
  sched::Cluster cluster = round_cluster(4);
  cluster.link_gb_per_s = 1;
  const sched::Estimate fused = estimate(plan_of(adam(4), "fused"), sizes, cluster);
  CHECK(fused.steps.front().links == Approx(2 * 0.75 * tensor / 1e3));
  CHECK(fused.steps.front().bound() == "links");
}

TEST_CASE("a kernel that reaches other nodes is a problem, and a library collective is none") {
  const sched::Cluster cluster = sched::load_cluster("dgx2-x2");
  CHECK(estimate(plan_of(adam(32), "fused"), sizes, cluster).problem ==
        "kernel 'adam_fused' exchanges data among 32 ranks of 2 nodes, and kernels reach the 16 "
        "ranks of a node");
  sched::Cluster rings_in_kernels = cluster;
  rings_in_kernels.kernels_cross_nodes = true;
  const sched::Estimate fused = estimate(plan_of(adam(32), "fused"), sizes, rings_in_kernels);
  CHECK(fused.problem.empty());
  CHECK(fused.steps.front().way.starts_with("ring, "));
  CHECK(fused.steps.front().bound() == "links");
  const sched::Estimate sliced = estimate(plan_of(adam(32), "sliced"), sizes, cluster);
  CHECK(sliced.problem.empty());
  CHECK(sliced.steps.front().way == "ring, ll128");
}

TEST_CASE("what overlaps takes less than one after the other, and no less than the longest") {
  sched::Cluster cluster = sched::load_cluster("dgx-h100");
  const Program block = programs::find("mlp_block")->build(Mesh({{"world", 8}}), f32);
  const std::map<std::string, std::int64_t> dims = {{"B", 16}, {"S", 1024}, {"H", 3072}};
  std::map<std::string, std::int64_t> all;
  for (const Dim& dim : ir::graph_of(block)->dims)
    all[dim.name] = dims.contains(dim.name) ? dims.at(dim.name) : dim.extent;
  const sched::Plan plan = plan_of(block, "overlapped");
  const sched::Estimate at_once = estimate(plan, all, cluster);
  cluster.overlaps = false;
  const sched::Estimate in_turn = estimate(plan, all, cluster);
  double longest = 0;
  for (const sched::StepEstimate& step : in_turn.steps) longest = std::max(longest, step.total());
  CHECK(at_once.us < in_turn.us);
  CHECK(at_once.us > longest);
}

TEST_CASE("a mesh of other ranks than the cluster's is refused") {
  CHECK(
      refusal<ConfigError>(
          [] { (void)estimate(plan_of(adam(2), "fused"), sizes, sched::load_cluster("dgx2")); }) ==
      "the cluster 'dgx2' has 16 ranks, 16 in each node, but the program's mesh {world: 2} has 2");
}
