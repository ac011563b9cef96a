// split: what an all_reduce becomes, and what cannot be split.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "sched/subjects.h"

using namespace coconet;
using Names = std::vector<std::string>;

namespace {

/// Two nodes of three ranks each: avg is the mean over each node, and then over the nodes, of g [7,
/// 5].
struct Nodes {
  Program p{"nodes", Mesh({{"node", 2}, {"gpu", 3}})};
  Value g = p.input("g", f32, {7, 5}, local);
  Value w = p.state("w", f32, {7, 5}, replicated);
  Value inner = all_reduce(g, mean, "gpu").named("inner");
  Value avg = all_reduce(inner, mean, "node").named("avg");
  Value w1 = update(w, w - avg);
};

}  // namespace

TEST_CASE("an all_reduce becomes a reduce_scatter and an all_gather that its readers read") {
  const Momentum before;
  const Program p = after(before.p, Schedule().split("avg"));
  CHECK(ir::graph_of(p)->find("avg") == -1);
  CHECK(operands(p, "avg.reduce_scatter") == Names{"g"});
  CHECK(type_of(p, "avg.reduce_scatter") == "avg.reduce_scatter: f32[n] sliced(0)");
  CHECK(node(p, "avg.reduce_scatter").attributes.reduction == Reduction::mean);
  CHECK(operands(p, "avg.all_gather") == Names{"avg.reduce_scatter"});
  CHECK(type_of(p, "avg.all_gather") == "avg.all_gather: f32[n] replicated");
  CHECK(operands(p, "add_7") == Names{"multiply_6", "avg.all_gather"});
  CHECK(node(p, "avg.all_gather").origin == "split op=avg");
  CHECK(node(p, "add_7").origin.empty());
  ir::verify(*ir::graph_of(p));
}

TEST_CASE("an all_reduce becomes a reduce and a broadcast") {
  const Momentum before;
  const Program p = after(before.p, Schedule().split("avg", "reduce+broadcast"));
  CHECK(type_of(p, "avg.reduce") == "avg.reduce: f32[n] local");
  CHECK(node(p, "avg.reduce").attributes.reduction == Reduction::mean);
  CHECK(operands(p, "avg.broadcast") == Names{"avg.reduce"});
  CHECK(operands(p, "add_7") == Names{"multiply_6", "avg.broadcast"});
}

TEST_CASE("an all_reduce of an all_reduce becomes one of slices between a scatter and a gather") {
  const Nodes before;
  const Program p = after(before.p, Schedule().split("avg", "hierarchical", 1));
  CHECK(operands(p, "avg.reduce_scatter") == Names{"g"});
  CHECK(type_of(p, "avg.reduce_scatter") ==
        "avg.reduce_scatter: f32[7, 5] {node: local, gpu: sliced(1)}");
  CHECK(operands(p, "avg.all_reduce") == Names{"avg.reduce_scatter"});
  CHECK(type_of(p, "avg.all_reduce") ==
        "avg.all_reduce: f32[7, 5] {node: replicated, gpu: sliced(1)}");
  CHECK(operands(p, "avg.all_gather") == Names{"avg.all_reduce"});
  CHECK(type_of(p, "avg.all_gather") ==
        "avg.all_gather: f32[7, 5] {node: replicated, gpu: replicated}");
  for (const char* reducing : {"avg.reduce_scatter", "avg.all_reduce"})
    CHECK(node(p, reducing).attributes.reduction == Reduction::mean);
  CHECK(ir::graph_of(p)->find("inner") == -1);
  CHECK(ir::graph_of(p)->find("avg") == -1);
  ir::verify(*ir::graph_of(p));
}

TEST_CASE("the inner all_reduce of a hierarchy stays for whatever else reads it") {
  Nodes read;
  read.p.output("y", (read.inner * 2).named("y"));
  const Program p = after(read.p, Schedule().split("avg", "hierarchical"));
  CHECK(operands(p, "y") == Names{"inner", "constant_6"});
  CHECK(operands(p, "avg.reduce_scatter") == Names{"g"});
  Nodes kept;
  kept.p.output("inner", kept.inner);
  CHECK(type_of(after(kept.p, Schedule().split("avg", "hierarchical")), "inner") ==
        "inner: f32[7, 5] {node: local, gpu: replicated}");
}

TEST_CASE("computation moves before the gather of a hierarchy, and states stay sliced") {
  const Nodes before;
  const Program p = after(before.p, Schedule()
                                        .split("avg", "hierarchical")
                                        .reorder("avg.all_gather", {"w.new"})
                                        .as_slice("w")
                                        .dead()
                                        .fuse("step", "computation", {"w.new"}));
  CHECK(operands(p, "w.slice") == Names{"w", "avg.all_reduce"});
  CHECK(type_of(p, "w") == "w: f32[7, 5] {node: replicated, gpu: sliced(0)}");
  CHECK(members(p, "step") == Names{"w.slice", "w.new"});
  CHECK(ir::graph_of(p)->find("avg.all_gather") == -1);
}

TEST_CASE("a hierarchy is made of two all_reduces of one reduction") {
  const Momentum flat;
  CHECK(reason(flat.p, Schedule().split("avg", "hierarchical")) ==
        "'avg' (all_reduce) reduces 'g' (input); a hierarchical split takes an all_reduce along "
        "one axis of an all_reduce along another");
  Nodes mixed;
  mixed.p.output("most", all_reduce(mixed.inner, max, "node").named("most"));
  CHECK(reason(mixed.p, Schedule().split("most", "hierarchical")) ==
        "'most' (all_reduce) takes the max of 'inner' (all_reduce), a mean; a hierarchical split "
        "takes two all_reduces of one reduction");
  // Only a program file can say this: fuse takes no all_reduce.
  Nodes fused;
  ir::graph_of(fused.p)->add_fusion({"k", {ir::id_of(fused.inner)}});
  CHECK(reason(fused.p, Schedule().split("avg", "hierarchical")) ==
        "'inner' (all_reduce) is in kernel 'k' already; split it before it is fused");
}

TEST_CASE("a hierarchy slices a dimension that there is") {
  Program p("scalars", Mesh({{"node", 2}, {"gpu", 3}}));
  const Value x = p.input("x", f32, {4}, local);
  p.output("y", all_reduce(all_reduce(sum(x), sum, "gpu"), sum, "node").named("total"));
  CHECK(reason(p, Schedule().split("total", "hierarchical")) ==
        "'dim' is 0, but total: f32[] {node: replicated, gpu: replicated} has no dimension to "
        "slice; split it into reduce+broadcast");
  const Nodes nodes;
  CHECK(reason(nodes.p, Schedule().split("avg", "hierarchical", 2)) ==
        "'dim' is 2, but avg: f32[7, 5] {node: replicated, gpu: replicated} has dimensions 0 to 1");
}

TEST_CASE("split slices the dimension that it is told, along the axis of the all_reduce") {
  Program p("grid", Mesh({{"pp", 2}, {"tp", 3}}));
  const Value x = p.input("x", f32, {4, 6}, Layout::on({{"pp", sliced(0)}, {"tp", local}}));
  (void)all_reduce(x, sum, "tp").named("y");
  const Program q = after(p, Schedule().split("y", "reduce_scatter+all_gather", 1));
  CHECK(type_of(q, "y.reduce_scatter") ==
        "y.reduce_scatter: f32[4, 6] {pp: sliced(0), tp: sliced(1)}");
  CHECK(type_of(q, "y.all_gather") == "y.all_gather: f32[4, 6] {pp: sliced(0), tp: replicated}");
  const Program nested = after(p, Schedule().split("y"));
  CHECK(type_of(nested, "y.reduce_scatter") ==
        "y.reduce_scatter: f32[4, 6] {pp: sliced(0), tp: sliced(0)}");
  CHECK(type_of(nested, "y.all_gather") == type_of(q, "y.all_gather"));

  Program other("grid", Mesh({{"pp", 2}, {"tp", 3}}));
  const Value z = other.input("z", f32, {4, 6}, Layout::on({{"pp", local}, {"tp", sliced(0)}}));
  (void)all_reduce(z, sum, "pp").named("y");
  CHECK(reason(other, Schedule().split("y")) ==
        "in program 'grid', 'y.reduce_scatter' (reduce_scatter): 'z' is f32[4, 6] {pp: local, tp: "
        "sliced(0)}, and slices along 'tp', which comes after 'pp' in the mesh, lie inside those "
        "along 'pp'; slice it along 'pp' before 'tp', or use another dimension");
}

TEST_CASE("an output keeps its name when its all_reduce is split") {
  Program p("total", two_ranks());
  p.output("y", all_reduce(p.input("x", f32, {4}, local), sum).named("y"));
  const Program q = after(p, Schedule().split("y"));
  REQUIRE(ir::graph_of(q)->outputs().size() == 1);
  CHECK(ir::graph_of(q)->outputs()[0].name == "y");
  CHECK(ir::graph_of(q)->at(ir::graph_of(q)->outputs()[0].value).name == "y.all_gather");
  CHECK(Program::parse(q.json()).json() == q.json());
}

TEST_CASE("the halves get names that are free") {
  Program p("names", two_ranks());
  const Value x = p.input("x", f32, {4}, local);
  (void)p.scalar("y.all_gather");
  p.output("z", all_reduce(x, sum).named("y") * 2);
  const Program q = after(p, Schedule().split("y"));
  CHECK(operands(q, "y.all_gather_2") == Names{"y.reduce_scatter"});
}

TEST_CASE("only an all_reduce can be split") {
  const Momentum step;
  CHECK(refusal([&] { (void)after(step.p, Schedule("mine").split("m.new")); }) ==
        "schedule 'mine', step 1 (split op=m.new): 'm.new' (update) is no all_reduce; only an "
        "all_reduce can be split");
  CHECK(reason(step.p, Schedule().split("av")) ==
        "program 'step' has no value 'av'; did you mean 'avg'?");
}

TEST_CASE("an all_reduce whose halves would have no dimension to slice is refused") {
  Program p("scalars", two_ranks());
  const Value x = p.input("x", f32, {4}, local);
  const Value total = all_reduce(sum(x), sum).named("total");
  p.output("y", total + all_reduce(x, sum).named("rows"));
  CHECK(reason(p, Schedule().split("total")) ==
        "'dim' is 0, but total: f32[] replicated has no dimension to slice; split it into "
        "reduce+broadcast");
  CHECK(reason(p, Schedule().split("rows", "reduce_scatter+all_gather", 1)) ==
        "'dim' is 1, but rows: f32[4] replicated has dimension 0 only");
  CHECK(type_of(after(p, Schedule().split("total", "reduce+broadcast")), "total.broadcast") ==
        "total.broadcast: f32[] replicated");
}

TEST_CASE("the dimension must be one of the tensor, and is for slices only") {
  Program p("matrix", two_ranks());
  p.output("y", all_reduce(p.input("x", f32, {4, 6}, local), sum).named("avg") * 2);
  CHECK(reason(p, Schedule().split("avg", "reduce_scatter+all_gather", -1)) ==
        "'dim' is -1, but avg: f32[4, 6] replicated has dimensions 0 to 1");
  CHECK(reason(p, Schedule().split("avg", "reduce+broadcast", 1)) ==
        "'dim' is for reduce_scatter+all_gather and hierarchical only; drop it");
  // 2^32 is no 0.
  CHECK(
      sched::legal(*ir::graph_of(p), {"split", {{"op", "avg"}, {"dim", std::int64_t{1} << 32}}}) ==
      "'dim' is 4294967296, but avg: f32[4, 6] replicated has dimensions 0 to 1");
}

TEST_CASE("the halves are one of the known pairs") {
  CHECK(refusal<ScheduleError>([] { Schedule().split("avg", "all_gather"); }) ==
        "split: 'into' is 'all_gather'; it takes 'reduce_scatter+all_gather', 'reduce+broadcast', "
        "'hierarchical'");
}

TEST_CASE("an all_reduce in a kernel is not split") {
  // Only a program file can say this: fuse takes no all_reduce.
  Momentum step;
  ir::graph_of(step.p)->add_fusion({"k", {ir::id_of(step.avg)}});
  CHECK(reason(step.p, Schedule().split("avg")) ==
        "'avg' (all_reduce) is in kernel 'k' already; split it before it is fused");
}

TEST_CASE("every all_reduce is a candidate, in each way that it can be split") {
  Program p("two", two_ranks());
  const Value x = p.input("x", f32, {4}, local);
  const Value a = all_reduce(x, sum).named("a");
  const Value b = all_reduce(sum(x), max).named("b");
  p.output("y", a + b);
  CHECK(legal_candidates(p, "split") == Names{"split op=a", "split op=a into=reduce+broadcast",
                                              "split op=b into=reduce+broadcast"});
  const Nodes nodes;
  CHECK(legal_candidates(nodes.p, "split") ==
        Names{"split op=inner", "split op=inner dim=1", "split op=inner into=reduce+broadcast",
              "split op=avg", "split op=avg dim=1", "split op=avg into=reduce+broadcast",
              "split op=avg into=hierarchical", "split op=avg into=hierarchical dim=1"});
}
