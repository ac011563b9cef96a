// overlap: steps that run at once, and those that cannot.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "sched/plan.h"
#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;
using Names = std::vector<std::string>;

namespace {

/// y = all_reduce(a b) * 2 + r, and a kernel of all but the matmul.
struct Block {
  Program p{"block", two_ranks()};
  Dim m = p.dim("m"), k = p.dim("k"), n = p.dim("n");
  Value a = p.input("a", f32, {m, k}, sliced(1));
  Value b = p.input("b", f32, {k, n}, sliced(0));
  Value r = p.input("r", f32, {m, n}, replicated);
  Value product = matmul(a, b).named("product");
  Value total = all_reduce(product, sum).named("total");

  Block() = default;
  /// With `y` as the result.
  void end() { p.output("y", (total * 2 + r).named("y")); }

  static Schedule fused(const Knobs& knobs = {}) {
    return Schedule("s")
        .split("total")
        .reorder("total.all_gather", {"y"})
        .fuse("block", "all_reduce", {"total.reduce_scatter", "y.slice", "y.all_gather"}, knobs);
  }
};

}  // namespace

TEST_CASE("a matmul and the kernel that reduces its product run at once") {
  Block block;
  block.end();
  const Program p = after(block.p, Block::fused().overlap({"product", "block"}));
  REQUIRE(ir::graph_of(p)->fusions().size() == 1);
  CHECK(ir::graph_of(p)->fusions()[0].arriving ==
        std::vector<ir::ValueId>{ir::graph_of(p)->require("product")});
  CHECK_THAT(p.str(), Contains("while these are made: product"));
  CHECK(Program::parse(p.json()).json() == p.json());

  const sched::Plan plan = sched::lower(*ir::graph_of(p));
  REQUIRE(plan.overlaps.size() == 1);
  CHECK(plan.overlaps[0].first == 0);
  CHECK(plan.overlaps[0].count == 2);
  CHECK(std::get<sched::MatmulStep>(plan.steps[0]).departing);
  const auto& kernel = std::get<sched::KernelStep>(plan.steps[1]);
  CHECK_FALSE(kernel.in_place);
  CHECK(kernel.phases[0].loads[0].arriving);
  CHECK_FALSE(kernel.phases[0].loads[1].arriving);
}

TEST_CASE("three kernels of a pipeline run at once") {
  Program p("stages", Mesh({{"pp", 2}, {"tp", 2}}));
  const Dim n = p.dim("n");
  const Layout own = Layout::on({{"pp", local}, {"tp", local}});
  const Value x = p.input("x", f32, {n}, own);
  const Value total = all_reduce(x, sum, "tp").named("total");
  p.output("y", send((total * 2).named("twice"), 1, "pp").named("y"));
  const Schedule kernels = Schedule()
                               .split("total")
                               .reorder("total.all_gather", {"y"})
                               .fuse("reduces", "reduce_scatter", {"total.reduce_scatter"})
                               .fuse("sends", "send", {"y.slice"})
                               .fuse("gathers", "all_gather", {"y.all_gather"});
  const sched::Plan plan = sched::lower(
      *ir::graph_of(after(p, Schedule(kernels).overlap({"reduces", "sends", "gathers"}))));
  REQUIRE(plan.overlaps.size() == 1);
  CHECK(plan.overlaps[0].count == 3);
  CHECK(std::get<sched::KernelStep>(plan.steps[0]).phases[0].stores[0].departing);
  CHECK(std::get<sched::KernelStep>(plan.steps[1]).phases[0].loads[0].arriving);
  CHECK(std::get<sched::KernelStep>(plan.steps[1]).phases[0].stores[0].departing);
  CHECK_FALSE(std::get<sched::KernelStep>(plan.steps[2]).phases[0].stores[0].departing);
  CHECK_THAT(sched::print(plan), Contains("at once: steps 1 to 3"));

  CHECK(reason(p, Schedule(kernels).overlap({"reduces", "gathers"})) ==
        "kernel 'gathers' reads nothing that kernel 'reduces' makes; each step takes what the one "
        "before makes");
  CHECK(reason(p, Schedule(kernels).overlap({"sends"})) ==
        "'steps' names 1 of the two or more steps to run at once");
  CHECK(reason(p, Schedule(kernels).overlap({"reduces", "sends"}).overlap({"reduces", "sends"})) ==
        "kernel 'sends' is overlapped with kernel 'reduces' already");
}

TEST_CASE("a step that nothing can be handed to or by is named") {
  Block block;
  block.end();
  CHECK(reason(block.p, Schedule().overlap({"product", "total"})) ==
        "'total' (all_reduce) is neither a kernel nor a matmul; fuse it into a kernel first");
  CHECK(reason(block.p, Block::fused().overlap({"block", "product"})) ==
        "'product' is a matmul, which waits for no tiles; it can only be the first of the steps");
  CHECK(reason(block.p, Block::fused().overlap({"product", "y.slice"})) ==
        "'y.slice' (add) is in kernel 'block'; name the kernel");
  CHECK_THAT(reason(block.p, Block::fused().overlap({"produkt", "block"})),
             Contains("'produkt'") && Contains("'product'"));
}

TEST_CASE("kernels of pointwise ops neither wait for tiles nor tell of them") {
  Block block;
  const Value twice = (block.product * 2).named("twice");
  block.p.output("y", all_reduce(twice, sum).named("sum"));
  const Schedule kernels =
      Schedule().fuse("doubles", "computation", {"twice"}).fuse("reduces", "all_reduce", {"sum"});
  CHECK(reason(block.p, Schedule(kernels).overlap({"product", "doubles"})) ==
        "kernel 'doubles' cannot be overlapped: it is of kind 'computation', which waits for no "
        "tiles; a kernel with a collective does");
  CHECK(reason(block.p, Schedule(kernels).overlap({"doubles", "reduces"})) ==
        "kernel 'reduces' cannot be overlapped: kernel 'doubles' is of kind 'computation', which "
        "does not tell others of its tiles; a matmul and a kernel with a collective do");
}

TEST_CASE("a kernel with a multicast pointer exchanges no chunks that could overlap") {
  Block block;
  block.end();
  const Schedule multimem = Block::fused({.algorithm = "multimem", .protocol = {}});
  CHECK(reason(block.p, Schedule(multimem).overlap({"product", "block"})) ==
        "kernel 'block' cannot be overlapped: with the algorithm 'multimem' it begins when the "
        "operands of all ranks are whole; use 'direct', 'ring' or 'tree', which exchange chunks");
}

TEST_CASE("nothing may lie between two steps that run at once") {
  Block block;
  const Value between = max(block.product, {0, 1}).named("between");
  block.p.output("y",
                 (block.total * all_reduce(between, max).named("largest") + block.r).named("y"));
  CHECK(reason(block.p, Block::fused().overlap({"product", "block"})) ==
        "kernel 'block' cannot be overlapped: there is a gap: 'largest' (all_reduce) is computed "
        "from 'product' (matmul) and read by 'multiply_7' (multiply) of kernel 'block', which runs "
        "at the same time; overlap fewer steps");
}

TEST_CASE("a state that the other step still reads may not be written") {
  Program p("overwrites", two_ranks());
  const Dim n = p.dim("n");
  const Value w = p.state("w", f32, {n, n}, replicated);
  const Value x = p.input("x", f32, {n, n}, local);
  const Value product = matmul(x, w).named("product");
  update(w, all_reduce(product, sum).named("total") + w);
  const Schedule fused =
      Schedule()
          .split("total")
          .reorder("total.all_gather", {"w.new"})
          .fuse("step", "all_reduce", {"total.reduce_scatter", "w.all_gather", "w.new"});
  CHECK(reason(p, Schedule(fused).overlap({"product", "step"})) ==
        "kernel 'step' cannot be overlapped: kernel 'step' writes state 'w', which 'product' "
        "(matmul) reads at the same time or later; leave 'w.new' (update) out of the overlap");
}

TEST_CASE("a step hands its tiles on to one kernel") {
  Block block;
  block.p.output("y", block.total);
  block.p.output("largest", all_reduce(block.product, max).named("largest"));
  const Schedule kernels =
      Schedule().fuse("adds", "all_reduce", {"total"}).fuse("compares", "all_reduce", {"largest"});
  CHECK(reason(block.p,
               Schedule(kernels).overlap({"product", "adds"}).overlap({"product", "compares"})) ==
        "kernel 'compares' cannot be overlapped: 'product' (matmul) is overlapped with another "
        "kernel already; a step hands its tiles on to one");
}

TEST_CASE("what arrives is read element by element") {
  Program p("broadcasts", two_ranks());
  const Dim n = p.dim("n");
  const Value row =
      matmul(p.input("a", f32, {1, n}, replicated), p.input("b", f32, {n, n}, replicated))
          .named("row");
  const Value x = p.input("x", f32, {n, n}, sliced(0));
  p.output("y", all_gather((x + row).named("sum")).named("whole"));
  CHECK(
      reason(
          p,
          Schedule().fuse("gathers", "all_gather", {"sum", "whole"}).overlap({"row", "gathers"})) ==
      "kernel 'gathers' cannot be overlapped: what arrives is row: f32[1, n] replicated, and the "
      "kernel goes through sum: f32[n, n] sliced(0); what arrives tile by tile lies in "
      "memory like that, or is what the kernel reduces");
}

TEST_CASE("what arrives is read where it lies, through no view") {
  Program p("turns", two_ranks());
  const Dim n = p.dim("n");
  const Value product =
      matmul(p.input("a", f32, {n, n}, replicated), p.input("b", f32, {n, n}, replicated))
          .named("product");
  const Value x = p.input("x", f32, {n, n}, sliced(0));
  p.output(
      "y",
      all_gather((x + transpose(product, {1, 0}).named("turned")).named("sum")).named("whole"));
  CHECK(reason(p, Schedule()
                      .fuse("gathers", "all_gather", {"sum", "whole"})
                      .overlap({"product", "gathers"})) ==
        "kernel 'gathers' cannot be overlapped: 'turned' (transpose) is a view of 'product' "
        "(matmul), "
        "which the kernel reads in another order than its tiles are made");
}

TEST_CASE("at most one of the kernels that run at once meets at barriers") {
  Program p("norms", two_ranks());
  const Dim n = p.dim("n");
  const Value x = p.input("x", f32, {n}, local);
  const Value part = reduce_scatter(x, sum).named("part");
  const Value scaled = (part / norm(part).named("length")).named("scaled");
  const Value again = (scaled / (norm(scaled).named("unit") + 1)).named("again");
  p.output("y", all_gather(again).named("whole"));
  CHECK(reason(p, Schedule()
                      .fuse("first", "reduce_scatter", {"part", "length", "scaled"})
                      .fuse("second", "all_gather", {"unit", "again", "whole"})
                      .overlap({"first", "second"})) ==
        "kernel 'second' cannot be overlapped: kernels 'first' and 'second' both hold reductions, "
        "at whose barriers all ranks meet; at most one of an overlap may");
}

TEST_CASE("candidates overlap each kernel with what it reads") {
  Block block;
  block.end();
  const Program p = after(block.p, Block::fused());
  const auto steps = sched::find_transformation("overlap")->candidates(*ir::graph_of(p));
  REQUIRE(steps.size() == 1);
  CHECK(to_string(steps[0]) == "overlap steps=[product, block]");
}
