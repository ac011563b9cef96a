// reorder: computation that moves across an all_gather, and what cannot move.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "ir/reference/reference.h"
#include "sched/subjects.h"

using namespace coconet;
using Names = std::vector<std::string>;

namespace {

/// y = x_whole * 2 + bias, with x_whole gathered from slices of a [4, 6] matrix.
struct Biased {
  Program p{"biased", two_ranks()};
  Value x;
  Value bias = p.input("bias", f32, {6}, replicated);
  Value whole;
  Value y;

  explicit Biased(int dim)
      : x(p.input("x", f32, {4, 6}, sliced(dim))),
        whole(all_gather(x).named("whole")),
        y((whole * 2 + bias).named("y")) {
    p.output("result", y);
  }
};

/// The hand-off of a pipeline of two stages, three ranks each: handed = send(f(all_reduce(x, tp)),
/// pp).
struct Stage {
  Program p{"stage", Mesh({{"pp", 2}, {"tp", 3}})};

  explicit Stage(Value (*hand_off)(const Value&) = [](const Value& v) {
    return send(v, 1, "pp");
  }) {
    const Value x = p.input("x", f32, {7, 5}, local);
    const Value total = all_reduce(x, sum, "tp").named("total");
    p.output("result", hand_off((total * 2 + 1).named("f")).named("handed"));
  }

  [[nodiscard]] Schedule on_slices() const {
    return Schedule().split("total").reorder("total.all_gather", {"handed"});
  }
};

ir::RankData result_of(const Program& program, const ir::RankData& x, const ir::RankData& bias) {
  ir::Reference reference(*ir::graph_of(program), {});
  reference.set("x", x);
  reference.set("bias", bias);
  reference.run({});
  return reference.get("result");
}

}  // namespace

TEST_CASE("updates behind the gather are computed on slices and gathered for their states") {
  const Momentum before;
  const Program p =
      after(before.p, Schedule().split("avg").reorder("avg.all_gather", {"m.new", "w.new"}));
  CHECK(ir::graph_of(p)->find("avg.all_gather") == -1);
  CHECK(type_of(p, "m.slice") == "m.slice: f32[n] sliced(0)");
  CHECK(operands(p, "m.slice") == Names{"multiply_6", "avg.reduce_scatter"});
  CHECK(operands(p, "m.all_gather") == Names{"m.slice"});
  CHECK(operands(p, "m.new") == Names{"m", "m.all_gather"});
  CHECK(operands(p, "w.new") == Names{"w", "w.all_gather"});
  CHECK(operands(p, "multiply_9") == Names{"lr", "m.slice"});
  CHECK(type_of(p, "w.slice") == "w.slice: f32[n] sliced(0)");
  CHECK(type_of(p, "w") == "w: f32[n] replicated");
  ir::verify(*ir::graph_of(p));
}

TEST_CASE("a value that is needed whole is gathered after the computation") {
  for (const int dim : {0, 1}) {
    const Biased before(dim);
    const Program p = after(before.p, Schedule().reorder("whole", {"y"}));
    const std::string layout = dim == 0 ? "sliced(0)" : "sliced(1)";
    CHECK(type_of(p, "y") == "y: f32[4, 6] " + layout);
    CHECK(operands(p, "y.all_gather") == Names{"y"});
    CHECK(ir::graph_of(p)->at(ir::graph_of(p)->outputs()[0].value).name == "y.all_gather");
    CHECK(ir::graph_of(p)->find("whole") == -1);
  }
}

TEST_CASE("a bias that is broadcast keeps its global index, whichever dimension is sliced") {
  const ir::RankData bias(2, {10, 20, 30, 40, 50, 60});
  for (const int dim : {0, 1}) {
    const Biased before(dim);
    const Program p = after(before.p, Schedule().reorder("whole", {"y"}));
    CHECK(type_of(p, "bias") == "bias: f32[6] replicated");
    ir::RankData x(2);
    for (int i = 0; i < 24; ++i) {
      const int rank = dim == 0 ? i / 12 : i % 6 / 3;
      x[static_cast<std::size_t>(rank)].push_back(i);
    }
    CHECK(result_of(p, x, bias) == result_of(before.p, x, bias));
  }
}

TEST_CASE("what is not named stays behind the gather, which stays for it") {
  const Momentum before;
  const Program p = after(before.p, Schedule().split("avg").reorder("avg.all_gather", {"m.new"}));
  CHECK(operands(p, "m.slice") == Names{"multiply_6", "avg.reduce_scatter"});
  CHECK(operands(p, "multiply_9") == Names{"lr", "m.new"});
  CHECK(ir::graph_of(p)->find("w.slice") == -1);
}

TEST_CASE("an output's name stays with the whole, and its slice gets another") {
  Program p("total", two_ranks());
  const Value x = all_gather(p.input("x", f32, {4}, sliced(0))).named("x.whole");
  p.output("y", (x * 2).named("y"));
  const Program q = after(p, Schedule().reorder("x.whole", {"y"}));
  CHECK(ir::graph_of(q)->outputs()[0].name == "y");
  CHECK(operands(q, ir::graph_of(q)->at(ir::graph_of(q)->outputs()[0].value).name) ==
        Names{"y.slice"});
  CHECK(Program::parse(q.json()).json() == q.json());
}

TEST_CASE("several axes: computation moves along the gather's axis only") {
  Program p("grid", Mesh({{"pp", 2}, {"tp", 3}}));
  const Value x = p.input("x", f32, {4, 6}, Layout::on({{"pp", sliced(0)}, {"tp", sliced(1)}}));
  const Value bias = p.input("bias", f32, {6}, replicated);
  const Value whole = all_gather(x, "tp").named("whole");
  p.output("result", (whole + bias).named("y"));
  const Program q = after(p, Schedule().reorder("whole", {"y"}));
  CHECK(type_of(q, "y") == "y: f32[4, 6] {pp: sliced(0), tp: sliced(1)}");
  CHECK(type_of(q, "y.all_gather") == "y.all_gather: f32[4, 6] {pp: sliced(0), tp: replicated}");
}

TEST_CASE("what is named must depend on the gather") {
  const Momentum step;
  const Schedule split = Schedule().split("avg");
  CHECK(reason(step.p, Schedule(split).reorder("avg.all_gather", {"multiply_6"})) ==
        "'multiply_6' (multiply) does not depend on 'avg.all_gather' (all_gather), so there is "
        "nothing to move; name values computed from it");
  CHECK(reason(step.p, Schedule(split).reorder("avg.all_gather", {"avg.all_gather"})) ==
        "'avg.all_gather' (all_gather) does not depend on 'avg.all_gather' (all_gather), so there "
        "is nothing to move; name values computed from it");
  CHECK(reason(step.p, Schedule(split).reorder("avg.all_gather", {"w.neu"})) ==
        "program 'step' has no value 'w.neu'; did you mean 'w.new'?");
  CHECK(reason(step.p, Schedule(split).reorder("avg.all_gather", {})) ==
        "'before' is empty; name the values that move");
}

TEST_CASE("computation moves across an all_gather, and across nothing else") {
  const Momentum step;
  CHECK(reason(step.p, Schedule().reorder("avg", {"m.new"})) ==
        "'avg' (all_reduce) is no all_gather; computation moves across an all_gather, which "
        "splitting an all_reduce makes");
}

TEST_CASE("a reduction over the gathered dimension combines slices, and what reads it is whole") {
  Momentum step;
  const Value length = norm(step.avg).named("length");
  step.p.output("total", (length * 2).named("total"));
  const Value longest = step.p.state("longest", f32, {}, replicated);
  update(longest, maximum(longest, length).named("longer"));
  step.p.output("y", (step.avg * length).named("y"));
  const Program p = after(step.p, Schedule().split("avg").reorder(
                                      "avg.all_gather", {"y", "total", "longest.new", "w.new"}));
  CHECK(ir::graph_of(p)->find("avg.all_gather") == -1);
  CHECK(type_of(p, "square_12") == "square_12: f32[n] sliced(0)");
  CHECK(type_of(p, "length") == "length: f32[] replicated");
  CHECK(type_of(p, "total") == "total: f32[] replicated");
  CHECK(operands(p, "longest.new") == Names{"longest", "longer"});
  CHECK(operands(p, "y.slice") == Names{"avg.reduce_scatter", "length"});
  ir::verify(*ir::graph_of(p));
}

TEST_CASE("a reduction over another dimension moves like a pointwise op") {
  Program p("rows", two_ranks());
  const Value whole = all_gather(p.input("x", f32, {4, 6}, sliced(0))).named("whole");
  p.output("y", sum(whole, {1}).named("y"));
  const Program q = after(p, Schedule().reorder("whole", {"y"}));
  CHECK(type_of(q, "y.slice") == "y.slice: f32[4] sliced(0)");
  CHECK(operands(q, ir::graph_of(q)->at(ir::graph_of(q)->outputs()[0].value).name) ==
        Names{"y.slice"});
}

TEST_CASE("a named reduction of what all ranks hold is shared out among them") {
  Momentum step;
  const Value length = norm(step.w).named("length");
  step.p.output("y", (step.avg * length).named("y"));
  const Schedule split = Schedule().split("avg");
  const Program p = after(step.p, Schedule(split).reorder("avg.all_gather", {"length", "y"}));
  CHECK(type_of(p, "square_12.slice") == "square_12.slice: f32[n] sliced(0)");
  CHECK(operands(p, "sum_13") == Names{"square_12.slice"});
  CHECK(type_of(p, "length") == "length: f32[] replicated");
  CHECK(operands(p, "y.slice") == Names{"avg.reduce_scatter", "length"});
  CHECK(operands(after(step.p, Schedule(split).reorder("avg.all_gather", {"y"})), "sum_13") ==
        Names{"square_12"});
}

TEST_CASE("a reduction that slices of its operand do not give does not move") {
  Momentum step;
  step.p.output("rows", sum(step.p.input("x", f32, {4, 6}, replicated), {1}).named("rows"));
  step.p.output("own", sum(step.g).named("own"));
  const Schedule split = Schedule().split("avg");
  CHECK(reason(step.p, Schedule(split).reorder("avg.all_gather", {"rows"})) ==
        "'rows' (reduction) reduces x: f32[4, 6] replicated; beside computation behind "
        "'avg.all_gather' (all_gather), reductions over dimension 0 of replicated tensors move");
  CHECK_THAT(reason(step.p, Schedule(split).reorder("avg.all_gather", {"own"})),
             Catch::StartsWith("'own' (reduction) reduces g: f32[n] local; "));
}

TEST_CASE("what needs whole operands does not move") {
  Program p("product", two_ranks());
  const Value whole = all_gather(p.input("x", f32, {4, 6}, sliced(1))).named("whole");
  const Value w = p.input("w", f32, {6, 3}, replicated);
  p.output("y", (matmul(whole, w).named("product") * 2).named("y"));
  CHECK(reason(p, Schedule().reorder("whole", {"y"})) ==
        "'product' (matmul) lies between 'whole' (all_gather) and the named values and needs whole "
        "operands; only pointwise ops, reductions, updates and collectives along other axes move "
        "across an all_gather");
}

TEST_CASE("a send along another axis moves with the computation before it, and sends slices") {
  const Stage before;
  const Program p = after(before.p, before.on_slices());
  CHECK(type_of(p, "f") == "f: f32[7, 5] {pp: local, tp: sliced(0)}");
  CHECK(operands(p, "handed") == Names{"f"});
  CHECK(type_of(p, "handed") == "handed: f32[7, 5] {pp: local, tp: sliced(0)}");
  CHECK(operands(p, "handed.all_gather") == Names{"handed"});
  CHECK(ir::graph_of(p)->at(ir::graph_of(p)->outputs()[0].value).name == "handed.all_gather");
  CHECK(ir::graph_of(p)->find("total.all_gather") == -1);
  ir::verify(*ir::graph_of(p));
}

TEST_CASE("every collective along another axis gives the same on slices") {
  const auto result = [](const Program& p) {
    ir::Reference reference(*ir::graph_of(p), {});
    ir::RankData x(6);
    for (std::size_t rank = 0; rank < 6; ++rank) {
      for (std::size_t i = 0; i < 35; ++i) x[rank].push_back(static_cast<double>(rank * 35 + i));
    }
    reference.set("x", x);
    reference.run({});
    return reference.get("result");
  };
  const std::pair<const char*, Value (*)(const Value&)> collectives[] = {
      {"all_reduce", [](const Value& v) { return all_reduce(v, mean, "pp"); }},
      {"reduce", [](const Value& v) { return reduce(v, max, 1, "pp"); }},
      {"broadcast", [](const Value& v) { return broadcast(v, 1, "pp"); }},
      {"reduce_scatter", [](const Value& v) { return reduce_scatter(v, sum, 1, "pp"); }},
      {"all_gather",
       [](const Value& v) { return all_gather(reduce_scatter(v, sum, 1, "pp"), "pp"); }},
      {"send", [](const Value& v) { return send(v, -1, "pp"); }}};
  for (const auto& [name, collective] : collectives) {
    INFO(name);
    const Stage before(collective);
    const Program p = after(before.p, before.on_slices());
    CHECK(ir::graph_of(p)->at(ir::graph_of(p)->require("handed")).op == ir::parse_op(name));
    CHECK(type_of(p, "handed").ends_with(" tp: sliced(0)}"));
    CHECK(result(p) == result(before.p));
  }
}

TEST_CASE("a collective along the axis that is gathered does not move") {
  const Stage stage([](const Value& v) { return v; });
  Program p = stage.p;
  const Value own = p.input("own", f32, {7, 5}, Layout::on({{"tp", local}}));
  const Value handed = ir::value_of(ir::graph_of(p), ir::graph_of(p)->require("handed"));
  p.output("again", all_reduce(handed + own, sum, "tp").named("again"));
  CHECK(reason(p, Schedule().split("total").reorder("total.all_gather", {"again"})) ==
        "'again' (all_reduce) works along axis 'tp', which 'total.all_gather' (all_gather) "
        "gathers; only collectives along other axes move across it");
}

TEST_CASE("a collective that slices the gathered dimension does not move") {
  const Stage stage([](const Value& v) { return reduce_scatter(v, sum, 0, "pp"); });
  CHECK(reason(stage.p, stage.on_slices()) ==
        "'handed' (reduce_scatter) cannot run on slices: in program 'stage', 'handed' "
        "(reduce_scatter): 'f' is f32[7, 5] {pp: local, tp: sliced(0)}, and slices along 'tp', "
        "which comes after 'pp' in the mesh, lie inside those along 'pp'; slice it along 'pp' "
        "before 'tp', or use another dimension");
}

TEST_CASE("what combines with values of each rank's own does not move") {
  Momentum step;
  step.p.output("y", (step.avg + step.g).named("y"));
  CHECK(reason(step.p, Schedule().split("avg").reorder("avg.all_gather", {"y"})) ==
        "'y' (add) cannot run on slices: in program 'step', 'y.slice' (add): along axis 'world' "
        "'avg.reduce_scatter' is f32[n] sliced(0) and 'g' is f32[n] local; values of each rank's "
        "own and slices of one tensor do not combine: reduce_scatter the local operand or "
        "all_gather the sliced one");
}

TEST_CASE("an update that broadcasts its value does not move") {
  Program p("rows", two_ranks());
  const Value matrix = p.state("matrix", f32, {4, 6}, replicated);
  const Value row = all_gather(p.input("row", f32, {6}, sliced(0))).named("whole");
  update(matrix, row * 2);
  CHECK(reason(p, Schedule().reorder("whole", {"matrix.new"})) ==
        "'matrix.new' (update) broadcasts its value over the state; a slice of the value is no "
        "slice of the state");
}

TEST_CASE("what is in a kernel does not move, nor does the gather of a kernel") {
  const Momentum step;
  const Schedule split = Schedule().split("avg");
  CHECK(reason(step.p, Schedule(split)
                           .fuse("k", "computation", {"m.new"})
                           .reorder("avg.all_gather", {"m.new"})) ==
        "'add_7' (add) is in kernel 'k' already; reorder before fusing");
  const Schedule fused =
      Schedule(split)
          .reorder("avg.all_gather", {"m.new", "w.new"})
          .as_slice("m")
          .dead()
          .fuse("k", "all_reduce", {"avg.reduce_scatter", "w.all_gather", "w.new", "m.new"});
  CHECK(reason(step.p, Schedule(fused).reorder("w.all_gather", {"w.new"})) ==
        "'w.all_gather' (all_gather) is in kernel 'k' already; reorder before fusing");
}

TEST_CASE("reductions that updates need beside the gather are a further candidate") {
  Program p("trust", two_ranks());
  const Dim n = p.dim("n", 8);
  const Value w = p.state("w", f32, {n}, replicated);
  const Value avg = all_reduce(p.input("g", f32, {n}, local), mean).named("avg");
  update(w, w - sum(w).named("total") * avg);
  CHECK(legal_candidates(after(p, Schedule().split("avg")), "reorder") ==
        Names{"reorder all_gather=avg.all_gather before=[w.new]",
              "reorder all_gather=avg.all_gather before=[total, w.new]"});
}

TEST_CASE("updates and sends behind a gather are the candidates") {
  const Momentum step;
  CHECK(legal_candidates(after(Stage().p, Schedule().split("total")), "reorder") ==
        Names{"reorder all_gather=total.all_gather before=[handed]"});
  CHECK(legal_candidates(step.p, "reorder").empty());
  CHECK(legal_candidates(after(step.p, Schedule().split("avg")), "reorder") ==
        Names{"reorder all_gather=avg.all_gather before=[m.new, w.new]"});
}

namespace {

/// y, of the sum of all ranks and a state that the program has sliced, is sliced; t, of y, too.
Program with_slices(const std::vector<std::string>& outputs) {
  Program p("slices", two_ranks());
  const Dim n = p.dim("n", 7);
  const Value c = all_reduce(p.input("x", f32, {n}, local), sum).named("c");
  const Value s = p.state("s", f32, {n}, sliced(0));
  const Value y = maximum(c, s).named("y"), t = (2 * y).named("t");
  for (const std::string& name : outputs) p.output(name, name == "y" ? y : t);
  update(s, s + t);
  return p;
}

}  // namespace

TEST_CASE("what the program has sliced stays sliced in front of the gather") {
  for (const std::vector<std::string>& outputs : {Names{"y"}, Names{"t"}, Names{"y", "t"}}) {
    for (const std::vector<std::string>& before :
         {Names{"y"}, Names{"t"}, Names{"s.new"}, Names{"y", "s.new"}}) {
      const Program p = with_slices(outputs);
      const Program q = after(p, Schedule().split("c").reorder("c.all_gather", before));
      for (const std::string& name : outputs) {
        CHECK(type_of(q, name) == name + ": f32[n] sliced(0)");
        CHECK(Program::parse(q.json()).json() == q.json());
      }
      CHECK(type_of(q, "s.new") == "s.new: f32[n] sliced(0)");
      CHECK(operands(q, "y") == Names{"c.reduce_scatter", "s"});
      CHECK(ir::graph_of(after(q, Schedule().dead()))->find("c.all_gather") < 0);
    }
  }
}

TEST_CASE("a state that the program has sliced is written without a gather") {
  const Program q =
      after(with_slices({}), Schedule().split("c").reorder("c.all_gather", {"s.new"}));
  for (const ir::Node& one : ir::graph_of(q)->nodes()) {
    if (one.op == ir::Op::all_gather) CHECK(one.name == "c.all_gather");
  }
}

TEST_CASE("what looks along the gathered dimension does not move, along another one it does") {
  const auto program = [](int dim, const std::function<Value(Program&, const Value&)>& make) {
    Program p("elsewhere", two_ranks());
    const Value x = p.input("x", f32, {4, 6}, sliced(dim));
    p.output("result", make(p, all_gather(x).named("whole")).named("y"));
    return p;
  };
  const Schedule schedule = Schedule().reorder("whole", {"y"});
  const auto taken = [](Program& p, const Value& x) { return take(x, p.iota({3}), 1); };
  CHECK(type_of(after(program(0, taken), schedule), "y") == "y: f32[4, 3] sliced(0)");
  CHECK(reason(program(1, taken), schedule) ==
        "'y' (take) cannot run on slices: it looks up indices that 'whole' (all_gather) gathers");
  const auto cut = [](Program&, const Value& x) { return window(x, 1, 0, 5); };
  CHECK(type_of(after(program(0, cut), schedule), "y") == "y: f32[4, 5] sliced(0)");
  CHECK_THAT(reason(program(1, cut), schedule),
             Catch::Contains("cannot run on slices") && Catch::Contains("all_gather it first"));
  const auto split = [](Program&, const Value& x) { return reshape(x, {4, 2, 3}); };
  CHECK(type_of(after(program(0, split), schedule), "y") == "y: f32[4, 2, 3] sliced(0)");
  CHECK_THAT(reason(program(1, split), schedule), Catch::Contains("does not stay as it is"));
}
