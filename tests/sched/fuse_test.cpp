// fuse: what one kernel may hold.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "sched/kernels.h"
#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;
using Names = std::vector<std::string>;

TEST_CASE("a kernel holds the named ops and the pointwise ops that they read") {
  const Momentum before;
  const Program p = after(before.p, kernel({"m.new", "w.new"}));
  CHECK(members(p, "k") ==
        Names{"multiply_6", "add_7", "m.new", "multiply_9", "subtract_10", "w.new"});
  CHECK(ir::graph_of(p)->fusions()[0].kind == ir::Fusion::Kind::computation);
}

TEST_CASE(
    "an all_reduce kernel holds the collectives, the computation between them and the updates") {
  const Momentum before;
  const Program p =
      after(before.p, m_on_slices().fuse("k", "all_reduce",
                                         {"avg.reduce_scatter", "m.new", "w.all_gather", "w.new"}));
  CHECK(members(p, "k") == Names{"avg.reduce_scatter", "multiply_6", "m.slice", "m.new",
                                 "multiply_9", "w.slice", "w.all_gather", "w.new"});
  CHECK(ir::graph_of(p)->fusions()[0].kind == ir::Fusion::Kind::all_reduce);
}

TEST_CASE("knobs are kept with the kernel") {
  const Momentum before;
  const Knobs knobs{"direct", "simple", 4, 256, 16};
  const Program p = after(before.p, Schedule().fuse("k", "computation", {"m.new"}, knobs));
  CHECK(ir::graph_of(p)->fusions()[0].knobs == knobs);
}

TEST_CASE("what others read too joins the kernel when it is of the kernel's domain") {
  Momentum before;
  const Value direction = (before.avg * 2).named("direction");
  const Value other = before.p.state("other", f32, {before.n}, replicated);
  update(other, before.w * direction);
  before.p.output("y", (sum(direction)).named("y"));
  const Program p = after(before.p, kernel({"other.new"}));
  CHECK(members(p, "k") == Names{"direction", "multiply_15", "other.new"});
}

TEST_CASE("what others read too stays outside when it is of another domain") {
  Momentum before;
  before.p.output("decayed", (before.w * 0.5).named("decayed"));  // needed whole
  const Value other = before.p.state("other", f32, {before.n}, sliced(0));
  update(other,
         ir::value_of(ir::graph_of(before.p), ir::graph_of(before.p)->require("decayed")) * 3);
  const Program p = after(before.p, kernel({"other.new"}));
  CHECK(members(p, "k") == Names{"multiply_16", "other.new"});
}

TEST_CASE("what the kernel would have to wait for stays outside, with what it is computed from") {
  // As in LAMB: the norm of the direction scales the direction.
  Momentum before;
  const Value direction = (before.avg * 2).named("direction");
  const Value other = before.p.state("other", f32, {before.n}, replicated);
  update(other, other - direction / norm(direction).named("length"));
  const Program p = after(before.p, kernel({"other.new"}));
  CHECK(members(p, "k") == Names{"length", "divide_18", "subtract_19", "other.new"});
}

TEST_CASE("the kernel's name is an identifier of its own") {
  const Momentum step;
  CHECK(reason(step.p, Schedule().fuse("my kernel", "computation", {"m.new"})) ==
        "the kernel name 'my kernel' is no identifier; use letters, digits and _");
  CHECK_THAT(reason(step.p, Schedule().fuse("2nd", "computation", {"m.new"})),
             Contains("'2nd' is no identifier"));
  CHECK_THAT(reason(step.p, Schedule().fuse("", "computation", {"m.new"})),
             Contains("'' is no identifier"));
  CHECK(reason(step.p, kernel({"m.new"}).fuse("k", "computation", {"w.new"})) ==
        "there is a kernel 'k' already; choose another name");
}

TEST_CASE("knobs have ranges") {
  const Momentum step;
  const auto with = [&](Knobs knobs) {
    return reason(step.p, Schedule().fuse("k", "computation", {"m.new"}, knobs));
  };
  CHECK(with({"", "", 1025, 0, 0}) == "'channels' is 1025; it must be 1 to 1024, or 0");
  CHECK(with({"", "", 0, 100, 0}) ==
        "'threads' is 100; it must be a multiple of 32 up to 1024, or 0");
  CHECK(with({"", "", 0, 2048, 0}) ==
        "'threads' is 2048; it must be a multiple of 32 up to 1024, or 0");
  CHECK(with({"", "", 0, 0, 12}) == "'vector_bytes' is 12; it must be 4, 8, 16, 32 or 64, or 0");
  CHECK(refusal([&] {
          (void)with({"mesh", "", 0, 0, 0});
        }) == "fuse: 'algorithm' is 'mesh'; it takes 'direct', 'ring', 'tree', 'multimem'");
  CHECK(refusal([&] {
          (void)with({"", "ll64", 0, 0, 0});
        }) == "fuse: 'protocol' is 'll64'; it takes 'simple', 'll', 'll128'");
  for (const int bytes : {512, 3000, 1 << 21, -1}) {
    CHECK(with({"", "", 0, 0, 0, bytes}) ==
          "'chunk_bytes' is " + std::to_string(bytes) +
              "; it must be a power of two from 1024 to 1048576, or 0");
  }
  CHECK_THAT(refusal([] { (void)kernel({"m.new"}, "gather"); }),
             Contains("fuse: 'kind' is 'gather'; it takes 'computation', 'all_reduce', "));
}

TEST_CASE(
    "a multicast pointer goes without mailboxes, along all ranks, and to tensors in one piece") {
  const auto sums = [](Program& p, const Value& g, const char* axis) {
    p.output("y", all_reduce(g, sum, axis).named("y"));
    return p;
  };
  const auto with = [](const Program& p, const Knobs& knobs) {
    return reason(p, Schedule().fuse("k", "all_reduce", {"y"}, knobs));
  };
  const Knobs multimem{"multimem", "simple"};
  Program plain("plain", two_ranks());
  sums(plain, plain.input("g", f32, {plain.dim("n", 8)}, local), "world");
  CHECK(with(plain, multimem) == "(accepted)");
  CHECK(with(plain, {"multimem", ""}) == "(accepted)");
  for (const std::string protocol : {"ll", "ll128"}) {
    CHECK(with(plain, {"multimem", protocol}) ==
          "kernel 'k' cannot be: the algorithm 'multimem' works in place, and the protocol '" +
              protocol +
              "' is one of mailboxes; use the protocol 'simple', or the algorithm 'direct'");
  }
  Program part("part", Mesh({{"a", 2}, {"b", 2}}));
  sums(part, part.input("g", f32, {part.dim("n", 8)}, local), "b");
  CHECK(with(part, multimem) ==
        "kernel 'k' cannot be: the algorithm 'multimem' reaches all 4 ranks of the mesh {a: 2, b: "
        "2}, but its collective is among the 2 along axis 'b'; use the algorithm 'direct', or a "
        "mesh of one axis");
  Program whole("whole", Mesh({{"a", 1}, {"b", 2}}));
  sums(whole, whole.input("g", f32, {whole.dim("n", 8)}, local), "b");
  CHECK(with(whole, multimem) == "(accepted)");
  Program pieces("pieces", two_ranks());
  sums(pieces, pieces.scattered_input("g", f32, pieces.dim("n", 8), local), "world");
  CHECK(with(pieces, multimem) ==
        "kernel 'k' cannot be: the algorithm 'multimem' takes tensors that lie in one piece, but "
        "'g' (input) is scattered over buffers; use the algorithm 'direct'");
}

TEST_CASE("computation and sends take any knobs, and have no use for a multicast pointer") {
  const Momentum step;
  CHECK(reason(step.p, Schedule().fuse("k", "computation", {"m.new"}, Knobs{"multimem", "ll"})) ==
        "(accepted)");
  Program p("sends", two_ranks());
  p.output("y", send(p.input("x", f32, {p.dim("n", 8)}, local)).named("y"));
  CHECK(reason(p, Schedule().fuse("k", "send", {"y"}, Knobs{"multimem", "ll"})) == "(accepted)");
}

TEST_CASE("a kernel takes views of what is in memory, not of what it computes") {
  Program p("views", two_ranks());
  const Value x = p.input("x", f32, {4, 4}, replicated);
  const Value twice = (x * 2).named("twice");
  p.output("y", (transpose(twice, {1, 0}).named("turned") + x).named("y"));
  CHECK(members(after(p, kernel({"y"})), "k") == Names{"turned", "y"});
  CHECK(reason(p, kernel({"twice", "y"})) ==
        "'turned' (transpose) is a view of 'twice' (multiply), of which the kernel has one element "
        "at a time; a kernel takes views of what is in memory; leave out 'twice' (multiply)");
}

TEST_CASE("operands are no work for a kernel") {
  const Momentum step;
  CHECK(reason(step.p, kernel({"m"})) ==
        "'m' (state) is an operand, no work that a kernel could do; leave it out");
  CHECK_THAT(reason(step.p, kernel({"g"})), Contains("'g' (input) is an operand"));
  CHECK_THAT(reason(step.p, kernel({"lr"})), Contains("'lr' (scalar) is an operand"));
  CHECK(reason(step.p, kernel({})) == "'ops' is empty; name the ops to fuse");
  CHECK(reason(step.p, kernel({"m.nwe"})) ==
        "program 'step' has no value 'm.nwe'; did you mean 'm.new'?");
}

TEST_CASE("an op is in one kernel") {
  const Momentum step;
  CHECK(reason(step.p, kernel({"m.new"}).fuse("l", "computation", {"m.new"})) ==
        "'m.new' (update) is in kernel 'k' already; an op is in one kernel");
}

TEST_CASE("a computation kernel takes pointwise ops and updates") {
  Momentum step;
  step.p.output("y", sum(step.w).named("y"));
  CHECK(reason(step.p, kernel({"avg", "m.new"})) ==
        "'kind' is 'computation', but a kernel of these ops is of kind 'all_reduce', because of "
        "'avg' (all_reduce); leave out 'avg' (all_reduce)");
  CHECK(reason(step.p, kernel({"y"})) ==
        "'y' (reduction) is no pointwise op, and a kernel of kind 'computation' takes pointwise "
        "ops and updates");
  CHECK(
      reason(step.p, m_on_slices().fuse("k", "computation", {"avg.reduce_scatter", "m.new"})) ==
      "'kind' is 'computation', but a kernel of these ops is of kind 'reduce_scatter', because of "
      "'avg.reduce_scatter' (reduce_scatter); leave out 'avg.reduce_scatter' (reduce_scatter)");
}

TEST_CASE("a kernel whose results nobody reads is refused") {
  Momentum step;
  (void)(step.w * 2).named("unused");
  CHECK(reason(step.p, kernel({"unused"})) ==
        "nothing outside the kernel reads any of its results; name an update or an output");
}

TEST_CASE("a kernel that would wait for itself is refused") {
  Momentum step;
  const Value a = (step.w * 2).named("a");
  const Value total = sum(a).named("total");
  step.p.output("b", (a * total).named("b"));
  CHECK(reason(step.p, kernel({"a", "b"})) ==
        "the kernel would wait for itself (a cycle): 'total' (reduction) is computed from its ops "
        "and read by 'b' (multiply); leave out 'b' (multiply), or leave out 'a' (multiply)");
}

TEST_CASE("two kernels that would wait for each other are refused") {
  Program p("crossed", two_ranks());
  const Value x = p.input("x", f32, {4}, replicated);
  const Value y = p.input("y", f32, {4}, replicated);
  const auto write = [&](const std::string& name, const Value& value) {
    const Value state = p.state("state of " + name, f32, {4}, replicated);
    return update(state, value.named("value of " + name)).named(name);
  };
  const Value a = write("a", x * 2);
  const Value c = write("c", y * 3);
  write("b", a + y);
  write("d", c + x);
  const Schedule first = Schedule().fuse("first", "computation", {"a", "d"});
  CHECK(members(after(p, first), "first") == Names{"value of a", "a", "value of d", "d"});
  CHECK(reason(p, Schedule(first).fuse("second", "computation", {"b", "c"})) ==
        "the kernel would wait for itself (a cycle): kernel 'first' reads what this one computes, "
        "and 'value of b' (add) reads its 'a' (update); make one kernel of both, in place of "
        "'first', or leave out 'b' (update)");
}

TEST_CASE("a kernel of ops that share nothing is refused") {
  Program p("gap", two_ranks());
  const Value lr = p.scalar("lr");
  const Value a = p.state("a", f32, {4}, replicated);
  const Value b = p.state("b", f32, {4}, replicated);
  update(a, a * lr);
  update(b, b * lr);
  CHECK(reason(p, kernel({"a.new", "b.new"})) ==
        "there is a gap: 'multiply_5' (multiply) shares no value with 'multiply_3' (multiply) and "
        "the ops around it; fuse the ops that connect them, or make two kernels");
}

TEST_CASE("results of one kernel are of one shape and layout") {
  Momentum step;
  const Value matrix = step.p.state("matrix", f32, {4, step.n}, replicated);
  update(matrix, matrix * step.w);
  CHECK(reason(step.p, kernel({"w.new", "matrix.new"})) ==
        "one kernel runs over one domain, but its results differ: matrix.new: f32[4, n] replicated "
        "and w.new: f32[n] replicated; make two kernels");
}

TEST_CASE("the kind of a kernel follows from its collectives") {
  const Momentum step;
  const auto kind = [&](const Schedule& schedule, const Names& ops) {
    const Program p = after(step.p, Schedule(schedule).fuse("k", "", ops));
    return ir::graph_of(p)->fusions().front().kind;
  };
  using Kind = ir::Fusion::Kind;
  CHECK(kind(Schedule(), {"m.new", "w.new"}) == Kind::computation);
  CHECK(kind(Schedule(), {"avg"}) == Kind::all_reduce);
  CHECK(kind(m_on_slices(), {"avg.reduce_scatter", "m.new"}) == Kind::reduce_scatter);
  CHECK(kind(m_on_slices(), {"w.all_gather", "w.new"}) == Kind::all_gather);
  CHECK(kind(m_on_slices(), {"avg.reduce_scatter", "m.new", "w.all_gather", "w.new"}) ==
        Kind::all_reduce);
  const Schedule at_root = Schedule().split("avg", "reduce+broadcast");
  CHECK(kind(at_root, {"avg.reduce"}) == Kind::reduce);
  CHECK(kind(at_root, {"avg.broadcast"}) == Kind::broadcast);
  Program p("sends", two_ranks());
  p.output("y", send(p.input("x", f32, {p.dim("n", 8)}, local)).named("y"));
  CHECK(ir::graph_of(after(p, kernel({"y"}, "")))->fusions().front().kind == Kind::send);
}

TEST_CASE("a kind that is said is that of the ops") {
  const Momentum step;
  CHECK(reason(step.p, m_on_slices().fuse("k", "reduce_scatter",
                                          {"avg.reduce_scatter", "m.new", "w.all_gather"})) ==
        "'kind' is 'reduce_scatter', but a kernel of these ops is of kind 'all_reduce', because of "
        "'avg.reduce_scatter' (reduce_scatter) and 'w.all_gather' (all_gather); leave out "
        "'w.all_gather' (all_gather)");
  CHECK(reason(step.p, kernel({"m.new"}, "send")) ==
        "'kind' is 'send', but a kernel of these ops is of kind 'computation', as none of them is "
        "a collective; give that kind, or none");
}

TEST_CASE(
    "a collective alone, with what is computed beside it, and all computation are candidates") {
  const Momentum step;
  CHECK(legal_candidates(step.p, "fuse") ==
        Names{"fuse kernel=step_computation kind=computation ops=[m.new, w.new]",
              "fuse kernel=step_all_reduce kind=all_reduce ops=[avg]"});
  CHECK(legal_candidates(after(step.p, m_on_slices()), "fuse") ==
        Names{"fuse kernel=step_computation kind=computation ops=[m.new, w.slice]",
              "fuse kernel=step_reduce_scatter kind=reduce_scatter ops=[avg.reduce_scatter]",
              "fuse kernel=step_reduce_scatter kind=reduce_scatter ops=[avg.reduce_scatter, m.new, "
              "w.slice]",
              "fuse kernel=step_all_reduce kind=all_reduce ops=[avg.reduce_scatter, m.new, "
              "w.all_gather, w.new]",
              "fuse kernel=step_all_gather kind=all_gather ops=[w.all_gather, w.new]",
              "fuse kernel=step_all_gather kind=all_gather ops=[m.new, w.all_gather, w.new]"});
}

TEST_CASE("computation is proposed for each domain between reductions") {
  Program p("2 norms", two_ranks());
  const Dim n = p.dim("n", 8);
  const Value x = p.input("x", f32, {n}, replicated);
  const Value y = p.state("y", f32, {n}, replicated);
  const Value scaled = (2 * x).named("scaled");
  update(y, scaled / sqrt(sum(square(scaled))).named("norm"));
  CHECK(legal_candidates(p, "fuse") ==
        Names{"fuse kernel=_2_norms_computation kind=computation ops=[scaled]",
              "fuse kernel=_2_norms_computation kind=computation ops=[norm]",
              "fuse kernel=_2_norms_computation kind=computation ops=[y.new]"});
}
