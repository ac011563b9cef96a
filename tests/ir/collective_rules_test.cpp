// The typing rules of collectives and slices: for each one a program that keeps it and one that
// breaks it, with the sentence that says so.
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Contains;
using Catch::EndsWith;

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
  CHECK_THAT(
      refusal([&] { (void)slice(f.s); }),
      EndsWith("along axis 'world' 's' is f32[n] sliced(0): it is sliced already; drop the slice"));
  CHECK_THAT(refusal([&] { (void)slice(f.lr); }), EndsWith("'lr' is a number; it takes a tensor"));
  CHECK_THAT(
      refusal([&] { (void)slice(f.w, 1); }),
      EndsWith(
          "slices dimension 1, but 'w' is f32[n] replicated: it has 1 dimension, counted from 0"));
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
        "every rank has the same values already; drop this op, or make the operand local");
  CHECK_THAT(refusal([&] { (void)broadcast(f.w); }),
             Contains("(broadcast): along axis 'world' 'w' is f32[n] replicated"));
}

TEST_CASE("slices of one tensor are not reduced over ranks") {
  Flat f;
  CHECK(refusal([&] { (void)reduce_scatter(f.s, sum).named("x"); }) ==
        "in program 'p', 'reduce_scatter_4' (reduce_scatter): along axis 'world' 's' is f32[n] "
        "sliced(0): every rank has another slice, so there is nothing to combine; all_gather it, "
        "or reduce over the sliced dimension");
  CHECK_THAT(refusal([&] { (void)all_reduce(f.s, sum); }), Contains("there is nothing to combine"));
  CHECK_THAT(refusal([&] { (void)reduce(f.s, sum); }), Contains("there is nothing to combine"));
}

TEST_CASE("all_gather takes a sliced value") {
  Flat f;
  CHECK_THAT(refusal([&] { (void)all_gather(f.g); }),
             EndsWith("along axis 'world' 'g' is f32[n] local: it takes a sliced value; "
                      "reduce_scatter makes one of a local one"));
  CHECK_THAT(refusal([&] { (void)all_gather(f.w); }),
             EndsWith("along axis 'world' 'w' is f32[n] replicated: every rank has the whole "
                      "already; drop the all_gather"));
}

TEST_CASE("all_to_all slices another dimension") {
  Grid grid;
  const Value x = grid.input("x", {grid.n, 6, 4}, {{"pp", sliced(0)}, {"tp", sliced(1)}});
  CHECK(type_of(all_to_all(x, 2, "tp").named("y")) ==
        "y: f32[n, 6, 4] {pp: sliced(0), tp: sliced(2)}");
  CHECK_THAT(
      refusal([&] { (void)all_to_all(x, 1, "tp"); }),
      EndsWith("along axis 'tp' 'x' is f32[n, 6, 4] {pp: sliced(0), tp: sliced(1)}: it is sliced "
               "along dimension 1 already; drop the all_to_all, or name another dimension"));
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
