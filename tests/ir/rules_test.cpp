// The typing rules: for each one a program that keeps it and one that breaks it, with the sentence
// that says so.
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "refusal.h"

using namespace coconet;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

std::string type_of(const Value& value) {
  return ir::describe(*ir::graph_of(value), ir::id_of(value));
}

/// Two ranks on one axis, and tensors of each layout.
struct Flat {
  Program p{"p", Mesh({{"world", 2}})};
  Dim n = p.dim("n", 8);
  Value w = p.state("w", f32, {n}, replicated);
  Value g = p.input("g", f32, {n}, local);
  Value s = p.input("s", f32, {n}, sliced(0));
  Value lr = p.scalar("lr");
};

/// Two mesh axes.
struct Grid {
  Program p{"grid", Mesh({{"pp", 2}, {"tp", 3}})};
  Dim n = p.dim("n", 8);

  Value input(const char* name, Shape shape,
              std::vector<std::pair<std::string, Placement>> layout) {
    return p.input(name, f32, std::move(shape), Layout::on(std::move(layout)));
  }
};

}  // namespace

TEST_CASE("operands of one dtype combine, and numbers take the dtype of the tensor") {
  Flat f;
  CHECK(type_of((f.w + f.w).named("a")) == "a: f32[n] replicated");
  CHECK(type_of((2 * f.w).named("b")) == "b: f32[n] replicated");
  CHECK(type_of((f.lr * f.w).named("c")) == "c: f32[n] replicated");
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  CHECK(type_of((i * 3).named("d")) == "d: i32[n] replicated");
  CHECK(type_of((f.lr * 2 + 1).named("e")) == "e: number");
}

TEST_CASE("dtypes do not mix without a cast") {
  Flat f;
  const Value h = f.p.input("h", f16, {f.n}, replicated);
  CHECK(refusal([&] { (void)(f.w + h).named("x"); }) ==
        "in program 'p', 'add_5' (add): the dtypes differ: 'w' is f32[n] replicated and 'h' is "
        "f16[n] replicated; "
        "cast one of them");
  CHECK(type_of((f.w + cast(h, f32)).named("x")) == "x: f32[n] replicated");
}

TEST_CASE("each dtype rule of the table accepts its dtypes and refuses the others") {
  Flat f;
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  const Value b = f.p.input("b", boolean, {f.n}, replicated);
  CHECK_THAT(refusal([&] { (void)(b + b); }),
             EndsWith("(add): 'b' is bool[n] replicated; it takes floats or integers"));
  CHECK_THAT(refusal([&] { (void)sqrt(i); }),
             EndsWith("(sqrt): 'i' is i32[n] replicated; it takes floats"));
  CHECK_THAT(refusal([&] { (void)(i / i); }),
             EndsWith("(divide): 'i' is i32[n] replicated; it takes floats"));
  CHECK_THAT(refusal([&] { (void)logical_and(b, i); }),
             Contains("the dtypes differ: 'b' is bool[n] replicated"));
  CHECK_THAT(refusal([&] { (void)logical_not(f.w); }),
             EndsWith("(logical_not): 'w' is f32[n] replicated; it takes bool"));
  CHECK(type_of((i < 3).named("small")) == "small: bool[n] replicated");
  CHECK(type_of(equal(b, b).named("same")) == "same: bool[n] replicated");
  CHECK(type_of(isfinite(f.w).named("finite")) == "finite: bool[n] replicated");
  CHECK(type_of(isnan(i).named("none")) == "none: bool[n] replicated");
  CHECK(type_of(logical_or(b, i < 3).named("either")) == "either: bool[n] replicated");
}

TEST_CASE("select takes a bool condition and two choices of one dtype") {
  Flat f;
  const Value b = f.p.input("b", boolean, {f.n}, replicated);
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  CHECK(type_of(select(b, f.w, 0).named("kept")) == "kept: f32[n] replicated");
  CHECK(type_of(select(f.lr > 1, f.w, f.g).named("either")) == "either: f32[n] local");
  CHECK_THAT(
      refusal([&] { (void)select(f.w, f.w, f.w); }),
      EndsWith("(select): 'w' is f32[n] replicated; the condition must be bool: compare it, != 0"));
  CHECK_THAT(refusal([&] { (void)select(b, 1.0, 0.0); }),
             EndsWith("(select): both choices are numbers, which leave the dtype of the result "
                      "open; state it: select(condition, a, b, f32), or \"dtype\" in JSON"));
  CHECK_THAT(refusal([&] { (void)select(b, f.w, i); }),
             Contains("the dtypes differ: 'w' is f32[n] replicated and 'i'"));
}

TEST_CASE("a constant combines with i64 if a double holds it, and is refused if none does") {
  Flat f;
  const Value i = f.p.input("i", i64, {f.n}, replicated);
  const std::int64_t one = 1;
  CHECK(type_of((i + (one << 60)).named("more")) == "more: i64[n] replicated");
  CHECK(type_of((i + std::numeric_limits<std::int64_t>::min()).named("least")) ==
        "least: i64[n] replicated");
  CHECK_THAT(refusal([&] { (void)(i + 0x1p63); }),
             EndsWith("the constant does not fit i64: cast the tensor to a wider dtype"));
  CHECK(refusal([&] { (void)(i + ((one << 53) + 1)); }) ==
        "the constant 9007199254740993 is no number that a double holds, as constants must be; the "
        "nearest is 9007199254740992");
  CHECK_THAT(refusal([&] { (void)(i + std::numeric_limits<std::int64_t>::max()); }),
             EndsWith("the nearest is 9223372036854775808"));
  CHECK_THAT(refusal([&] { (void)(i + std::numeric_limits<std::uint64_t>::max()); }),
             EndsWith("the nearest is 18446744073709551616"));
  f.p.output("large", i + (one << 60));
  std::string json = f.p.json();
  const std::string written = "1.152921504606847e+18";
  json.replace(json.find(written), written.size(), "1152921504606846977");
  CHECK_THAT(refusal([&] { (void)Program::parse(json); }),
             EndsWith("is 1152921504606846977, which no double holds, as numbers must be; the "
                      "nearest is 1152921504606846976"));
}

TEST_CASE("select may state the dtype of its result, which two numbers leave open") {
  Flat f;
  const Value b = f.p.input("b", boolean, {f.n}, replicated);
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  CHECK(type_of(select(b, 1.0, 0.0, bf16).named("mask")) == "mask: bf16[n] replicated");
  CHECK(type_of(select(b, f.lr, 0, f64).named("rate")) == "rate: f64[n] replicated");
  CHECK(type_of(select(b, 1, 0, boolean).named("same")) == "same: bool[n] replicated");
  CHECK(type_of(select(b, f.w, 0, f32).named("kept")) == "kept: f32[n] replicated");
  CHECK(type_of(select(f.lr > 1, f.w, f.g, f32).named("either")) == "either: f32[n] local");
  CHECK_THAT(refusal([&] { (void)select(b, i, 0, f32); }),
             EndsWith("(select): 'i' is i32[n] replicated, but the dtype is stated to be f32; cast "
                      "the tensor, or state i32"));
  CHECK_THAT(refusal([&] { (void)select(b, 0.5, 0, i32); }),
             EndsWith("is a number and the dtype is i32; only whole constants combine with "
                      "integers and bool: state a float dtype"));
  CHECK_THAT(refusal([&] { (void)select(b, 300, 0, u8); }),
             EndsWith("and the dtype is u8; the constant does not fit u8: state a wider dtype"));
  CHECK_THAT(refusal([&] { (void)select(f.w, 1, 0, f32); }),
             EndsWith("'w' is f32[n] replicated; the condition must be bool: compare it, != 0"));
  CHECK_THAT(refusal([&] { (void)select(f.lr > 1, 1, 0, f32); }),
             EndsWith("(select): condition and choices are numbers, and so is the result, which "
                      "takes the dtype of what it is combined with; drop the dtype"));
  CHECK(refusal([&] { (void)select(true, 1, 0, f32); }) ==
        "select takes a tensor of a program, but its operand is the constant 1.000000");
}

TEST_CASE("only whole constants combine with integers") {
  Flat f;
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  const Value b = f.p.input("b", boolean, {f.n}, replicated);
  (void)(i + 2.0);
  (void)equal(b, 1);
  CHECK_THAT(refusal([&] { (void)(i * 0.5); }),
             EndsWith("is a number and 'i' is i32[n] replicated; only whole constants combine with "
                      "integers and bool: "
                      "cast the tensor to a float dtype"));
  CHECK_THAT(refusal([&] { (void)(i * f.lr); }),
             Contains("'lr' is a number and 'i' is i32[n] replicated; only whole"));
}

TEST_CASE("cast takes a tensor") {
  Flat f;
  CHECK(type_of(cast(f.s, bf16).named("narrow")) == "narrow: bf16[n] sliced(0)");
  CHECK_THAT(refusal([&] { (void)cast(f.lr, f16); }),
             EndsWith("(cast): 'lr' is a number, which takes the dtype of what it is combined "
                      "with; drop the cast"));
  CHECK(refusal([&] { (void)cast(2, f16); }) ==
        "cast takes a tensor of a program, but its operand is the constant 2.000000");
}

TEST_CASE("copy takes a state") {
  Flat f;
  const auto copy_of = [&](const Value& value) {
    ir::Node node;
    node.op = ir::Op::copy;
    node.name = "old";
    node.operands = {ir::id_of(value)};
    return ir::describe(*ir::graph_of(f.p), ir::append(*ir::graph_of(f.p), std::move(node)));
  };
  CHECK_THAT(refusal([&] { (void)copy_of(f.g); }),
             EndsWith("'old' (copy): 'g' is no state but input; only states change within a step, "
                      "other values need no copy"));
  CHECK(copy_of(f.w) == "old: f32[n] replicated");
}

TEST_CASE("shapes broadcast from the right") {
  Flat f;
  const Value matrix = f.p.input("matrix", f32, {4, f.n}, replicated);
  const Value column = f.p.input("column", f32, {4, 1}, replicated);
  CHECK(type_of((matrix + f.w).named("a")) == "a: f32[4, n] replicated");
  CHECK(type_of((column * f.w).named("b")) == "b: f32[4, n] replicated");
  CHECK(type_of((sum(f.w) * f.w).named("c")) == "c: f32[n] replicated");
}

TEST_CASE("shapes that do not broadcast are refused, naming two that differ") {
  Flat f;
  const Value five = f.p.input("five", f32, {5}, replicated);
  const Value matrix = f.p.input("matrix", f32, {f.n, 4}, replicated);
  CHECK_THAT(refusal([&] { (void)(f.w + five); }),
             EndsWith("(add): the shapes do not broadcast: 'w' is f32[n] replicated and 'five' is "
                      "f32[5] replicated; "
                      "dimensions counted from the right must be the same or 1"));
  CHECK_THAT(refusal([&] { (void)(matrix * f.w); }),
             Contains("'matrix' is f32[n, 4] replicated and 'w' is f32[n]"));
}

TEST_CASE("a replicated operand takes the layout of the others") {
  Flat f;
  CHECK(type_of((f.w + f.g).named("a")) == "a: f32[n] local");
  CHECK(type_of((f.s + f.w).named("b")) == "b: f32[n] sliced(0)");
  CHECK(type_of((f.s * f.s).named("c")) == "c: f32[n] sliced(0)");
  CHECK(type_of((f.g - f.g).named("d")) == "d: f32[n] local");
}

TEST_CASE("a slice of a broadcast operand is a slice of the result's own dimension") {
  Flat f;
  const Value matrix = f.p.input("matrix", f32, {4, f.n}, replicated);
  CHECK(type_of((matrix + f.s).named("a")) == "a: f32[4, n] sliced(1)");
}

TEST_CASE("local and sliced do not combine") {
  Flat f;
  CHECK(refusal([&] { (void)(f.g + f.s).named("x"); }) ==
        "in program 'p', 'add_4' (add): along axis 'world' 'g' is f32[n] local and 's' is f32[n] "
        "sliced(0); values "
        "of each rank's own and slices of one tensor do not combine: reduce_scatter the local "
        "operand or all_gather "
        "the sliced one");
  CHECK(type_of((reduce_scatter(f.g, sum) + f.s).named("x")) == "x: f32[n] sliced(0)");
}

TEST_CASE("slices of different dimensions do not combine") {
  Flat f;
  const Value rows = f.p.input("rows", f32, {f.n, f.n}, sliced(0));
  const Value columns = f.p.input("columns", f32, {f.n, f.n}, sliced(1));
  CHECK_THAT(refusal([&] { (void)(rows + columns); }),
             EndsWith("along axis 'world' 'rows' is f32[n, n] sliced(0) and 'columns' is f32[n, n] "
                      "sliced(1); the "
                      "operands are sliced along different dimensions: all_gather one of them"));
  CHECK(type_of((rows + all_gather(columns)).named("x")) == "x: f32[n, n] sliced(0)");
}

TEST_CASE("a sliced dimension of extent 1 does not broadcast") {
  Flat f;
  const Value one = f.p.input("one", f32, {1}, sliced(0));
  CHECK_THAT(refusal([&] { (void)(one + f.w); }),
             EndsWith("'one' is f32[1] sliced(0), but its sliced dimension has extent 1 and is "
                      "broadcast; all_gather it "
                      "first"));
  CHECK(type_of((all_gather(one) + f.w).named("x")) == "x: f32[n] replicated");
  CHECK(type_of((one + one).named("y")) == "y: f32[1] sliced(0)");
}

TEST_CASE("axes place an operand independently") {
  Grid grid;
  const Value x = grid.input("x", {grid.n, 6}, {{"pp", local}, {"tp", sliced(1)}});
  const Value y = grid.input("y", {grid.n, 6}, {{"tp", sliced(1)}});
  CHECK(type_of((x + y).named("z")) == "z: f32[n, 6] {pp: local, tp: sliced(1)}");
  const Value rows = grid.input("rows", {grid.n, 6}, {{"pp", sliced(0)}});
  CHECK_THAT(refusal([&] { (void)(x + rows); }),
             Contains("along axis 'pp' 'x' is f32[n, 6] {pp: local, tp: sliced(1)}"));
}

TEST_CASE(
    "an inner slice combines with an outer one of the same dimension only when it is sliced "
    "alike") {
  Grid grid;
  const Value outer = grid.input("outer", {grid.n}, {{"pp", sliced(0)}});
  const Value inner = grid.input("inner", {grid.n}, {{"tp", sliced(0)}});
  const Value both = grid.input("both", {grid.n}, {{"pp", sliced(0)}, {"tp", sliced(0)}});
  CHECK(type_of((outer + both).named("x")) == "x: f32[n] {pp: sliced(0), tp: sliced(0)}");
  CHECK_THAT(
      refusal([&] { (void)(outer + inner); }),
      EndsWith("'inner' is f32[n] {pp: replicated, tp: sliced(0)}, but the result's dimension 0 is "
               "sliced along "
               "axis 'pp' first; slice the operand along 'pp' too, or all_gather it along 'tp'"));
}

TEST_CASE("shapes name dimensions of the program, with extents of at least 1") {
  Flat f;
  CHECK(refusal([&] { (void)f.p.input("x", f32, {Dim("m", 4)}, replicated); }) ==
        "in program 'p', 'x' (input): dimension 'm' is unknown; make it with Program::dim");
  CHECK(refusal([&] {
          (void)f.p.state("x", f32, {4, 0}, replicated);
        }) == "in program 'p', 'x' (state): has a dimension of extent 0; it must be at least 1");
}

TEST_CASE("a tensor is sliced along a dimension that it has") {
  Flat f;
  CHECK(refusal([&] { (void)f.p.input("x", f32, {f.n}, sliced(1)); }) ==
        "in program 'p', 'x' (input): is sliced(1) along axis 'world', but its shape [n] has 1 "
        "dimension, counted "
        "from 0");
  CHECK_THAT(refusal([&] { (void)f.p.input("x", f32, {}, sliced(0)); }),
             Contains("its shape [] has 0 dimensions"));
  CHECK_THAT(refusal([&] { (void)f.p.input("x", f32, {f.n}, sliced(-1)); }),
             Contains("is sliced(-1) along axis 'world'"));
}

TEST_CASE("a tensor has one placement per mesh axis") {
  Grid grid;
  ir::Node node;
  node.op = ir::Op::input;
  node.name = "x";
  node.shape = {grid.n};
  node.layout = {replicated};
  CHECK(refusal([&] { (void)ir::append(*ir::graph_of(grid.p), node); }) ==
        "in program 'grid', 'x' (input): has 1 placement; the mesh {pp: 2, tp: 3} needs one per "
        "axis");
}

TEST_CASE("update takes a state, once") {
  Flat f;
  CHECK(type_of(update(f.w, f.w * 2)) == "w.new: f32[n] replicated");
  CHECK(refusal([&] { update(f.w, f.w * 3); }) ==
        "in program 'p', 'update_9' (update): state 'w' is updated already, by 'w.new'; a step "
        "updates a state once");
  CHECK_THAT(
      refusal([&] { update(f.g, f.w); }),
      EndsWith(
          "(update): 'g' is no state but input; only what Program::state made can be updated"));
  CHECK(refusal([&] { update(1, f.w); }) ==
        "update takes a tensor of a program, but its operand is the constant 1.000000");
}

TEST_CASE("update writes a value of the state's dtype that broadcasts to its shape") {
  Flat f;
  const Value i = f.p.state("i", i32, {f.n}, replicated);
  const Value matrix = f.p.state("matrix", f32, {4, f.n}, replicated);
  CHECK_THAT(refusal([&] { update(i, f.w); }),
             EndsWith("the dtypes differ: 'i' is i32[n] replicated and 'w' is f32[n] replicated; "
                      "cast the value"));
  CHECK_THAT(refusal([&] { update(f.w, matrix); }),
             EndsWith("the value is larger than the state: 'w' is f32[n] replicated and 'matrix' "
                      "is f32[4, n] replicated"));
  CHECK_THAT(
      refusal([&] { update(i, f.lr); }),
      EndsWith(
          "'i' is i32[n] replicated and 'lr' is a number; write a tensor of the state's dtype"));
  CHECK(type_of(update(matrix, f.w)) == "matrix.new: f32[4, n] replicated");
  CHECK(type_of(update(i, 3)) == "i.new: i32[n] replicated");
  CHECK(type_of(update(f.w, f.lr)) == "w.new: f32[n] replicated");
}

TEST_CASE("update writes a value that lies like the state, or is the same on every rank") {
  Flat f;
  const Value slice = f.p.state("slice", f32, {f.n}, sliced(0));
  const Value own = f.p.state("own", f32, {f.n}, local);
  CHECK_THAT(refusal([&] { update(f.w, f.s); }),
             EndsWith("along axis 'world' 'w' is f32[n] replicated and 's' is f32[n] sliced(0); "
                      "all_gather the value, "
                      "or keep the state sliced alike"));
  CHECK_THAT(refusal([&] { update(f.w, f.g); }),
             EndsWith("along axis 'world' 'w' is f32[n] replicated and 'g' is f32[n] local; every "
                      "rank would write "
                      "values of its own: all_reduce the value first"));
  CHECK_THAT(refusal([&] { update(slice, f.g); }),
             Contains("'slice' is f32[n] sliced(0) and 'g' is f32[n] local"));
  CHECK(type_of(update(slice, f.w)) == "slice.new: f32[n] sliced(0)");
  CHECK(type_of(update(own, f.w)) == "own.new: f32[n] local");
}

TEST_CASE("update does not broadcast a sliced dimension of extent 1") {
  Flat f;
  const Value matrix = f.p.state("matrix", f32, {4, f.n}, sliced(0));
  const Value row = f.p.input("row", f32, {1, f.n}, sliced(0));
  CHECK_THAT(refusal([&] { update(matrix, row); }),
             EndsWith("'matrix' is f32[4, n] sliced(0) and 'row' is f32[1, n] sliced(0); the "
                      "value's sliced dimension "
                      "has extent 1 and is broadcast: all_gather it first"));
  CHECK(type_of(update(matrix, all_gather(row))) == "matrix.new: f32[4, n] sliced(0)");
}

TEST_CASE("update counts sliced dimensions of a smaller value from the right") {
  Flat f;
  const Value matrix = f.p.state("matrix", f32, {4, f.n}, sliced(1));
  CHECK(type_of(update(matrix, f.s)) == "matrix.new: f32[4, n] sliced(1)");
  const Value rows = f.p.state("rows", f32, {f.n, f.n}, sliced(0));
  CHECK_THAT(refusal([&] { update(rows, f.s); }),
             Contains("'rows' is f32[n, n] sliced(0) and 's' is f32[n] sliced(0)"));
}

TEST_CASE("update keeps nested slices nested") {
  Grid grid;
  const Value inner = grid.input("inner", {grid.n}, {{"tp", sliced(0)}});
  const Value state =
      grid.p.state("state", f32, {grid.n}, Layout::on({{"pp", sliced(0)}, {"tp", sliced(0)}}));
  CHECK_THAT(refusal([&] { update(state, inner); }),
             Contains("the result's dimension 0 is sliced along axis 'pp' first"));
}

TEST_CASE("a reduction drops its dimensions or keeps them as 1") {
  Flat f;
  const Value x = f.p.input("x", f32, {4, f.n, 3}, replicated);
  CHECK(type_of(sum(x).named("a")) == "a: f32[] replicated");
  CHECK(type_of(max(x, {-1}).named("b")) == "b: f32[4, n] replicated");
  CHECK(type_of(min(x, {2, 0}, true).named("c")) == "c: f32[1, n, 1] replicated");
  CHECK(type_of(norm(x, {1}).named("d")) == "d: f32[4, 3] replicated");
  CHECK(type_of(mean(x).named("e")) == "e: f32[] replicated");
}

TEST_CASE(
    "a reduction over the sliced dimension is the same on every rank; another one stays sliced") {
  Flat f;
  const Value x = f.p.input("x", f32, {4, f.n}, sliced(1));
  CHECK(type_of(sum(x, {1}).named("a")) == "a: f32[4] replicated");
  CHECK(type_of(sum(x, {0}).named("b")) == "b: f32[n] sliced(0)");
  CHECK(type_of(sum(x, {0}, true).named("c")) == "c: f32[1, n] sliced(1)");
  CHECK(type_of(sum(f.g).named("d")) == "d: f32[] local");
}

TEST_CASE("a reduction takes a tensor of numbers and dimensions that it has, once each") {
  Flat f;
  const Value b = f.p.input("b", boolean, {f.n}, replicated);
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  CHECK_THAT(refusal([&] { (void)sum(f.lr); }),
             EndsWith("(reduction): 'lr' is a number; a reduction takes a tensor"));
  CHECK_THAT(refusal([&] { (void)max(b); }),
             EndsWith("'b' is bool[n] replicated; cast it to an integer or float dtype first"));
  CHECK_THAT(
      refusal([&] { (void)sum(f.w, {1}); }),
      EndsWith("reduces over dimension 1, but 'w' is f32[n] replicated: dimensions are -1 to 0"));
  CHECK_THAT(refusal([&] { (void)sum(sum(f.w), {0}); }),
             EndsWith("is f32[] replicated: it has no dimensions"));
  CHECK_THAT(refusal([&] { (void)sum(f.w, {0, -1}); }), EndsWith("names dimension 0 twice"));
  CHECK(refusal([&] { (void)mean(i); }) ==
        "mean of 'i', which is i32; mean takes floats: cast it first");
  CHECK(refusal([&] { (void)sum(3); }) ==
        "sum takes a tensor of a program, but its operand is the constant 3.000000");
}

TEST_CASE("a refused mean leaves the program as it was") {
  Flat f;
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  const std::string before = f.p.str();
  CHECK_THROWS_AS(mean(i), ProgramError);
  CHECK(f.p.str() == before);
}

TEST_CASE("collectives change the placement along their axis") {
  Flat f;
  CHECK(type_of(all_reduce(f.g, mean).named("a")) == "a: f32[n] replicated");
  CHECK(type_of(reduce_scatter(f.g, sum).named("b")) == "b: f32[n] sliced(0)");
  CHECK(type_of(all_gather(f.s).named("c")) == "c: f32[n] replicated");
  CHECK(type_of(reduce(f.g, max, 1).named("d")) == "d: f32[n] local");
  CHECK(type_of(broadcast(f.g).named("e")) == "e: f32[n] replicated");
  Grid grid;
  const Value x = grid.input("x", {grid.n, 6}, {{"pp", sliced(0)}, {"tp", local}});
  CHECK(type_of(reduce_scatter(x, sum, 1, "tp").named("y")) ==
        "y: f32[n, 6] {pp: sliced(0), tp: sliced(1)}");
}

TEST_CASE("slice keeps each rank's block along its axis") {
  Flat f;
  CHECK(type_of(slice(f.w).named("a")) == "a: f32[n] sliced(0)");
  Grid grid;
  const Value x = grid.input("x", {grid.n, 6}, {{"pp", sliced(0)}});
  CHECK(type_of(slice(x, 1, "tp").named("y")) == "y: f32[n, 6] {pp: sliced(0), tp: sliced(1)}");
}

TEST_CASE("only what every rank has is sliced, along a dimension that there is") {
  Flat f;
  CHECK(refusal([&] { (void)slice(f.g).named("x"); }) ==
        "in program 'p', 'slice_4' (slice): along axis 'world' 'g' is f32[n] local: every rank has "
        "values of its own; reduce_scatter makes slices of their reduction");
  CHECK_THAT(refusal([&] { (void)slice(f.s); }),
             EndsWith("along axis 'world' 's' is f32[n] sliced(0): it is sliced already; drop the "
                      "slice"));
  CHECK_THAT(refusal([&] { (void)slice(f.lr); }), EndsWith("'lr' is a number; it takes a tensor"));
  CHECK_THAT(refusal([&] { (void)slice(f.w, 1); }),
             EndsWith("slices dimension 1, but 'w' is f32[n] replicated: it has 1 dimension, "
                      "counted from 0"));
}

TEST_CASE("axes that slice one dimension nest, and each layout has a way there and back") {
  Grid grid;
  const Value outer = grid.input("outer", {grid.n, 6}, {{"pp", sliced(0)}});
  const Value summand = grid.input("summand", {grid.n, 6}, {{"pp", sliced(0)}, {"tp", local}});
  const std::string nested = "y: f32[n, 6] {pp: sliced(0), tp: sliced(0)}";
  const Value part = slice(outer, 0, "tp").named("y");
  CHECK(type_of(part) == nested);
  CHECK(type_of(all_gather(part, "tp").named("back")) ==
        "back: f32[n, 6] {pp: sliced(0), tp: replicated}");
  CHECK(type_of(all_gather(all_gather(part, "tp"), "pp").named("whole")) ==
        "whole: f32[n, 6] {pp: replicated, tp: replicated}");
  CHECK(type_of(reduce_scatter(summand, sum, 0, "tp").named("total")).substr(7) ==
        nested.substr(3));
  CHECK(type_of(all_to_all(part, 1, "tp").named("turned")) ==
        "turned: f32[n, 6] {pp: sliced(0), tp: sliced(1)}");
  CHECK(type_of(all_to_all(all_to_all(part, 1, "tp"), 0, "tp").named("again")).substr(7) ==
        nested.substr(3));

  const std::string before =
      "'y' is f32[n, 6] {pp: sliced(0), tp: sliced(0)}, and slices along 'tp', which comes after "
      "'pp' in the mesh, lie inside those along 'pp'; all_gather it along 'tp' first";
  CHECK_THAT(refusal([&] { (void)all_gather(part, "pp"); }), EndsWith(before));
  CHECK_THAT(refusal([&] { (void)all_to_all(part, 1, "pp"); }), EndsWith(before));
  const Value inner = grid.input("inner", {grid.n, 6}, {{"pp", local}, {"tp", sliced(0)}});
  CHECK_THAT(refusal([&] { (void)reduce_scatter(inner, sum, 0, "pp"); }),
             EndsWith("'inner' is f32[n, 6] {pp: local, tp: sliced(0)}, and slices along 'tp', "
                      "which comes after 'pp' in the mesh, lie inside those along 'pp'; slice it "
                      "along 'pp' before 'tp', or use another dimension"));
  const Value rows = grid.input("rows", {grid.n, 6}, {{"tp", sliced(0)}});
  CHECK_THAT(refusal([&] { (void)slice(rows, 0, "pp"); }),
             EndsWith("slice it along 'pp' before 'tp', or use another dimension"));
  const Value columns = grid.input("columns", {grid.n, 6}, {{"pp", sliced(1)}, {"tp", sliced(0)}});
  CHECK_THAT(refusal([&] { (void)all_to_all(columns, 0, "pp"); }),
             EndsWith("slice it along 'pp' before 'tp', or use another dimension"));
}

TEST_CASE("what every rank has already is not reduced again") {
  Flat f;
  CHECK(refusal([&] { (void)all_reduce(f.w, sum).named("x"); }) ==
        "in program 'p', 'all_reduce_4' (all_reduce): along axis 'world' 'w' is f32[n] replicated: "
        "every rank has the "
        "same values already; drop this op, or make the operand local");
  CHECK_THAT(refusal([&] { (void)broadcast(f.w); }),
             Contains("(broadcast): along axis 'world' 'w' is f32[n] replicated"));
}

TEST_CASE("slices of one tensor are not reduced over ranks") {
  Flat f;
  CHECK(refusal([&] { (void)reduce_scatter(f.s, sum).named("x"); }) ==
        "in program 'p', 'reduce_scatter_4' (reduce_scatter): along axis 'world' 's' is f32[n] "
        "sliced(0): every rank "
        "has another slice, so there is nothing to combine; all_gather it, or reduce over the "
        "sliced dimension");
  CHECK_THAT(refusal([&] { (void)all_reduce(f.s, sum); }), Contains("there is nothing to combine"));
  CHECK_THAT(refusal([&] { (void)reduce(f.s, sum); }), Contains("there is nothing to combine"));
}

TEST_CASE("all_gather takes a sliced value") {
  Flat f;
  CHECK_THAT(refusal([&] { (void)all_gather(f.g); }),
             EndsWith("along axis 'world' 'g' is f32[n] local: it takes a sliced value; "
                      "reduce_scatter makes one of a "
                      "local one"));
  CHECK_THAT(
      refusal([&] { (void)all_gather(f.w); }),
      EndsWith(
          "along axis 'world' 'w' is f32[n] replicated: every rank has the whole already; drop the "
          "all_gather"));
}

TEST_CASE("all_to_all slices another dimension") {
  Grid grid;
  const Value x = grid.input("x", {grid.n, 6, 4}, {{"pp", sliced(0)}, {"tp", sliced(1)}});
  CHECK(type_of(all_to_all(x, 2, "tp").named("y")) ==
        "y: f32[n, 6, 4] {pp: sliced(0), tp: sliced(2)}");
  CHECK_THAT(refusal([&] { (void)all_to_all(x, 1, "tp"); }),
             EndsWith("along axis 'tp' 'x' is f32[n, 6, 4] {pp: sliced(0), tp: sliced(1)}: it is "
                      "sliced along dimension 1 already; drop the all_to_all, or name another "
                      "dimension"));
  CHECK_THAT(refusal([&] { (void)all_to_all(x, 3, "tp"); }),
             EndsWith("it has 3 dimensions, counted from 0"));
  Flat f;
  CHECK_THAT(refusal([&] { (void)all_to_all(f.g, 0); }),
             EndsWith("along axis 'world' 'g' is f32[n] local: it takes a sliced value; "
                      "reduce_scatter makes one of a local one"));
  CHECK_THAT(refusal([&] { (void)all_to_all(f.w, 0); }),
             EndsWith("along axis 'world' 'w' is f32[n] replicated: every rank has the whole "
                      "already; slice takes a rank's block of it"));
  CHECK_THAT(refusal([&] { (void)all_to_all(f.lr, 0); }),
             EndsWith("'lr' is a number, the same on every rank; it takes a tensor"));
}

TEST_CASE("reduce_scatter slices a dimension that there is") {
  Flat f;
  CHECK_THAT(
      refusal([&] { (void)reduce_scatter(f.g, sum, 1); }),
      EndsWith("slices dimension 1, but 'g' is f32[n] local: it has 1 dimension, counted from 0"));
  CHECK_THAT(refusal([&] { (void)reduce_scatter(f.g, sum, -1); }),
             Contains("slices dimension -1, but 'g'"));
}

TEST_CASE("collectives reduce numbers, and mean floats") {
  Flat f;
  const Value i = f.p.input("i", i32, {f.n}, local);
  const Value b = f.p.input("b", boolean, {f.n}, local);
  CHECK(type_of(all_reduce(i, sum).named("a")) == "a: i32[n] replicated");
  CHECK(type_of(broadcast(b).named("c")) == "c: bool[n] replicated");
  CHECK_THAT(refusal([&] { (void)all_reduce(b, max); }),
             EndsWith("'b' is bool[n] local; cast it to an integer or float dtype first"));
  CHECK_THAT(refusal([&] { (void)all_reduce(i, mean); }),
             EndsWith("'i' is i32[n] local; mean takes floats: cast it, or use sum"));
}

TEST_CASE("collectives take tensors") {
  Flat f;
  CHECK_THAT(refusal([&] { (void)all_reduce(f.lr, sum); }),
             EndsWith("(all_reduce): 'lr' is a number, the same on every rank; it takes a tensor"));
  CHECK(refusal([&] { (void)all_reduce(1, sum); }) ==
        "all_reduce takes a tensor of a program, but its operand is the constant 1.000000");
}

TEST_CASE("send keeps the layout, local along its axis and any on the others") {
  Grid grid;
  const Value x = grid.input("x", {grid.n, 6}, {{"pp", local}, {"tp", sliced(1)}});
  CHECK(type_of(send(x, 1, "pp").named("a")) == "a: f32[n, 6] {pp: local, tp: sliced(1)}");
  const Value y = grid.input("y", {grid.n, 6}, {{"pp", local}});
  CHECK(type_of(send(y, -1, "pp").named("b")) == "b: f32[n, 6] {pp: local, tp: replicated}");
  const Value z = grid.p.input("z", boolean, {grid.n}, local);
  CHECK(type_of(send(z, -2, "tp").named("c")) == "c: bool[n] {pp: local, tp: local}");
  CHECK(type_of(send(z, 2, "tp").named("d")) == "d: bool[n] {pp: local, tp: local}");
}

TEST_CASE("send gives values of a group's own to a group that there is") {
  Flat f;
  CHECK(refusal([&] { (void)send(f.w); }) ==
        "in program 'p', 'send_4' (send): along axis 'world' 'w' is f32[n] replicated: every group "
        "has the same values already; drop this op, or make the operand local");
  CHECK_THAT(refusal([&] { (void)send(f.s); }),
             EndsWith("along axis 'world' 's' is f32[n] sliced(0): another group needs another "
                      "slice; all_gather it, or send along an axis on which it is local"));
  CHECK(refusal([&] { (void)send(f.g, 2); }) ==
        "in program 'p', 'send_4' (send): sends past the last group with offset 2; axis 'world' "
        "has 2 groups, so offsets are 1 and -1");
  CHECK_THAT(refusal([&] { (void)send(f.g, std::numeric_limits<int>::min()); }),
             EndsWith("sends past the first group with offset -2147483648; axis 'world' has 2 "
                      "groups, so offsets are 1 and -1"));
  Grid grid;
  const Value x = grid.p.input("x", f32, {grid.n}, local);
  CHECK_THAT(refusal([&] { (void)send(x, 3, "tp"); }),
             EndsWith("sends past the last group with offset 3; axis 'tp' has 3 groups, so offsets "
                      "are 1 to 2 and -1 to -2"));
  CHECK_THAT(refusal([&] { (void)send(x, 0, "tp"); }),
             EndsWith("has offset 0, which sends each group's values to itself; axis 'tp' has 3 "
                      "groups, so offsets are 1 to 2 and -1 to -2"));
  Program one("one", Mesh({{"world", 1}}));
  const Value own = one.input("own", f32, {4}, local);
  for (const int offset : {1, -1}) {
    CHECK_THAT(refusal([&] { (void)send(own, offset); }),
               EndsWith(" group with offset " + std::to_string(offset) +
                        "; axis 'world' has one group: drop this op, or give the axis more"));
  }
}

TEST_CASE("a root is a rank of the axis") {
  Flat f;
  CHECK_THAT(refusal([&] { (void)reduce(f.g, sum, 2); }),
             EndsWith("(reduce): has root 2; axis 'world' has ranks 0 to 1"));
  CHECK_THAT(refusal([&] { (void)broadcast(f.g, -1); }),
             EndsWith("has root -1; axis 'world' has ranks 0 to 1"));
}

TEST_CASE(
    "a collective works along an axis of the mesh, which must be named when there are several") {
  Grid grid;
  const Value x = grid.input("x", {grid.n}, {{"tp", local}});
  CHECK(type_of(all_reduce(x, sum, "tp").named("y")) ==
        "y: f32[n] {pp: replicated, tp: replicated}");
  CHECK(refusal([&] { (void)all_reduce(x, sum); }) ==
        "all_reduce in program 'grid' names no axis, but the mesh {pp: 2, tp: 3} has several; name "
        "one of them");
  CHECK(refusal([&] { (void)all_reduce(x, sum, "dp"); }) ==
        "all_reduce in program 'grid' works along axis 'dp'; the mesh is {pp: 2, tp: 3}");
  ir::Node node;
  node.op = ir::Op::all_gather;
  node.operands = {ir::id_of(x)};
  node.attributes.axis = 2;
  CHECK_THAT(refusal([&] { (void)ir::append(*ir::graph_of(grid.p), node); }),
             EndsWith("works along axis 2 of {pp: 2, tp: 3}"));
}

TEST_CASE("an op takes as many operands as its row says") {
  Flat f;
  ir::Node node;
  node.op = ir::Op::add;
  node.name = "x";
  node.operands = {ir::id_of(f.w)};
  CHECK(refusal([&] { (void)ir::append(*ir::graph_of(f.p), node); }) ==
        "in program 'p', 'x' (add): has 1 operand; it takes 2");
  node.operands = {ir::id_of(f.w), 99};
  CHECK(refusal<InternalError>([&] { (void)ir::append(*ir::graph_of(f.p), node); }) ==
        "operand out of order in 'x'");
}

TEST_CASE("a scattered tensor has one named dimension and is on every rank") {
  Flat f;
  const Value w = f.p.scattered_state("sw", f32, f.n, replicated);
  const Value g = f.p.scattered_input("sg", f32, f.n, local);
  CHECK(type_of(w) == "sw: f32[n] replicated");
  CHECK(type_of((w + all_reduce(g, sum)).named("a")) == "a: f32[n] replicated");
  CHECK(type_of(sum(w * w).named("b")) == "b: f32[] replicated");
  CHECK(type_of((w + f.s).named("c")) == "c: f32[n] sliced(0)");
  CHECK_THROWS_WITH(
      f.p.scattered_input("x", f32, 8, local),
      EndsWith("'x' (input): is scattered over buffers and has the shape [8]; it must "
               "have one dimension, made with Program::dim, by whose name the lengths "
               "of the buffers are given"));
  CHECK_THROWS_WITH(f.p.scattered_state("x", f32, f.n, sliced(0)),
                    EndsWith("'x' (state): is scattered over buffers and sliced(0); a rank's slice "
                             "is one buffer of its own, so make it an ordinary state"));
}

TEST_CASE("a scattered tensor is not broadcast over rows") {
  Flat f;
  const Value w = f.p.scattered_state("sw", f32, f.n, replicated);
  const Value rows = f.p.input("rows", f32, {3, f.n}, replicated);
  CHECK_THROWS_WITH(w + rows,
                    EndsWith("'sw' is f32[n] replicated, scattered over buffers, and the result "
                             "would be [3, n]; combine it with tensors of [n] only"));
  CHECK_NOTHROW(w + f.p.input("one", f32, {1}, replicated));
}

TEST_CASE("verify accepts what was built and refuses a type that its operands do not make") {
  Flat f;
  const Value x = (f.w + f.g).named("x");
  ir::verify(*ir::graph_of(f.p));
  ir::graph_of(f.p)->nodes[static_cast<std::size_t>(ir::id_of(x))].layout = {replicated};
  CHECK(refusal<InternalError>([&] { ir::verify(*ir::graph_of(f.p)); }) ==
        "'x' is recorded as x: f32[n] replicated but its operands make it x: f32[n] local");
}

TEST_CASE("a constant that an integer dtype does not hold is refused") {
  Program p("constants", Mesh({{"world", 1}}));
  const Value bytes = p.input("bytes", u8, {4}, replicated);
  const Value words = p.input("words", i32, {4}, replicated);
  CHECK_NOTHROW(bytes + 255);
  CHECK_NOTHROW(words + -2147483648.0);
  CHECK_THROWS_WITH(bytes + 256,
                    Contains("'bytes' is u8[4] replicated; the constant does not fit u8: "
                             "cast the tensor to a wider dtype"));
  CHECK_THROWS_WITH(bytes > -1, Contains("does not fit u8"));
  CHECK_THROWS_WITH(words * 1e10, Contains("does not fit i32"));
}
