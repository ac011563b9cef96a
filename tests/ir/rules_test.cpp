// The typing rules of ops on one rank: for each one a program that keeps it and one that breaks it,
// with the sentence that says so.
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Contains;
using Catch::EndsWith;

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
        "f16[n] replicated; cast one of them");
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
                      "integers and bool: cast the tensor to a float dtype"));
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
  CHECK_THAT(
      refusal([&] { (void)(f.w + five); }),
      EndsWith("(add): the shapes do not broadcast: 'w' is f32[n] replicated and 'five' is f32[5] "
               "replicated; dimensions counted from the right must be the same or 1"));
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
        "sliced(0); values of each rank's own and slices of one tensor do not combine: "
        "reduce_scatter the local operand or all_gather the sliced one");
  CHECK(type_of((reduce_scatter(f.g, sum) + f.s).named("x")) == "x: f32[n] sliced(0)");
}

TEST_CASE("slices of different dimensions do not combine") {
  Flat f;
  const Value rows = f.p.input("rows", f32, {f.n, f.n}, sliced(0));
  const Value columns = f.p.input("columns", f32, {f.n, f.n}, sliced(1));
  CHECK_THAT(
      refusal([&] { (void)(rows + columns); }),
      EndsWith(
          "along axis 'world' 'rows' is f32[n, n] sliced(0) and 'columns' is f32[n, n] sliced(1); "
          "the operands are sliced along different dimensions: all_gather one of them"));
  CHECK(type_of((rows + all_gather(columns)).named("x")) == "x: f32[n, n] sliced(0)");
}

TEST_CASE("a sliced dimension of extent 1 does not broadcast") {
  Flat f;
  const Value one = f.p.input("one", f32, {1}, sliced(0));
  CHECK_THAT(refusal([&] { (void)(one + f.w); }),
             EndsWith("'one' is f32[1] sliced(0), but its sliced dimension has extent 1 and is "
                      "broadcast; all_gather it first"));
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
  CHECK_THAT(refusal([&] { (void)(outer + inner); }),
             EndsWith("'inner' is f32[n] {pp: replicated, tp: sliced(0)}, but the result's "
                      "dimension 0 is sliced along axis 'pp' first; slice the operand along 'pp' "
                      "too, or all_gather it along 'tp'"));
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
        "dimension, counted from 0");
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

TEST_CASE("what is composed of several ops is refused by the tensor's name, and leaves no op") {
  Flat f;
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Value h = f.p.input("h", dtype, {f.n, 3}, replicated);
  const std::string before = f.p.str();
  CHECK_THROWS_AS(mean(i), ProgramError);
  const std::string lies = "'h' is " + std::string(to_string(dtype)) + "[n, 3] replicated";
  const std::string wrong =
      "(reduction): reduces over dimension 2, but " + lies + ": dimensions are -2 to 1";
  CHECK_THAT(refusal([&] { (void)mean(h, {2}); }), EndsWith(wrong));
  CHECK_THAT(refusal([&] { (void)norm(h, {2}); }), EndsWith(wrong));
  CHECK_THAT(refusal([&] { (void)softmax(h, 2); }), EndsWith(wrong));
  CHECK_THAT(refusal([&] { (void)layer_norm(h, 2); }), EndsWith(wrong));
  CHECK_THAT(refusal([&] { (void)norm(h, {1, 1}); }), EndsWith("names dimension 1 twice"));
  CHECK_THAT(refusal([&] { (void)norm(h, per_buffer); }),
             Contains(lies + "; a reduction of each buffer takes a tensor of one dimension"));
  CHECK(f.p.str() == before);
  const Value four = f.p.input("four", dtype, {4}, replicated);
  for (const bool is_gamma : {true, false}) {
    const Value whole = f.p.input(is_gamma ? "gamma" : "beta", dtype, {3}, replicated);
    CHECK_THAT(
        refusal([&] { (void)layer_norm(h, is_gamma ? four : whole, is_gamma ? whole : four, 1); }),
        Contains("'four' is "));
  }
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
      EndsWith(
          "'x' (input): is scattered over buffers and has the shape [8]; it must have one "
          "dimension, made with Program::dim, by whose name the lengths of the buffers are given"));
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
  ir::graph_of(f.p)->edit(ir::id_of(x)).layout = {replicated};
  CHECK(refusal<InternalError>([&] { ir::verify(*ir::graph_of(f.p)); }) ==
        "'x' is recorded as x: f32[n] replicated but its operands make it x: f32[n] local");
}

TEST_CASE("a constant that an integer dtype does not hold is refused") {
  Program p("constants", Mesh({{"world", 1}}));
  const Value bytes = p.input("bytes", u8, {4}, replicated);
  const Value words = p.input("words", i32, {4}, replicated);
  CHECK_NOTHROW(bytes + 255);
  CHECK_NOTHROW(words + -2147483648.0);
  CHECK_THROWS_WITH(bytes + 256, Contains("'bytes' is u8[4] replicated; the constant does not fit "
                                          "u8: cast the tensor to a wider dtype"));
  CHECK_THROWS_WITH(bytes > -1, Contains("does not fit u8"));
  CHECK_THROWS_WITH(words * 1e10, Contains("does not fit i32"));
}

TEST_CASE("a transpose names each dimension once, and slices stay where they are") {
  Flat f;
  const Value x = f.p.input("x", f32, {f.n, 3, 5}, sliced(0));
  CHECK(type_of(transpose(x, {2, 0, 1}).named("y")) == "y: f32[5, n, 3] sliced(1)");
  CHECK(f.p.str().find("transpose(x, {2, 0, 1})") != std::string::npos);
  CHECK(type_of(transpose(x, {-1, -2, -3}).named("z")) == "z: f32[5, 3, n] sliced(2)");
  CHECK_THAT(
      refusal([&] {
        (void)transpose(x, {0, 2});
      }),
      EndsWith(
          "(transpose): has the permutation of 2 dimensions, but 'x' is f32[n, 3, 5] sliced(0): "
          "it names each of its dimensions once, from 0 to 2"));
  CHECK_THAT(refusal([&] {
               (void)transpose(x, {0, 1, -2});
             }),
             Contains("has the permutation {0, 1, -2}"));
  CHECK_THAT(refusal([&] { (void)transpose(x, {0, 1, 3}); }), Contains("{0, 1, 3}"));
  CHECK_THAT(refusal([&] { (void)transpose(f.w, {0}); }),
             EndsWith("(transpose): 'w' is f32[n] replicated; it takes a tensor of 2 dimensions or "
                      "more"));
  CHECK_THAT(refusal([&] { (void)transpose(f.lr, {}); }),
             EndsWith("'lr' is a number; it takes a tensor of 2 dimensions or more"));
}
