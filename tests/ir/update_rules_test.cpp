// The typing rules of update: for each one a program that keeps it and one that breaks it, with the
// sentence that says so.
#include <catch2/catch.hpp>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Contains;
using Catch::EndsWith;

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
                      "all_gather the value, or keep the state sliced alike"));
  CHECK_THAT(refusal([&] { update(f.w, f.g); }),
             EndsWith("along axis 'world' 'w' is f32[n] replicated and 'g' is f32[n] local; every "
                      "rank would write values of its own: all_reduce the value first"));
  CHECK_THAT(refusal([&] { update(slice, f.g); }),
             Contains("'slice' is f32[n] sliced(0) and 'g' is f32[n] local"));
  CHECK(type_of(update(slice, f.w)) == "slice.new: f32[n] sliced(0)");
  CHECK(type_of(update(own, f.w)) == "own.new: f32[n] local");
}

TEST_CASE("update does not broadcast a sliced dimension of extent 1") {
  Flat f;
  const Value matrix = f.p.state("matrix", f32, {4, f.n}, sliced(0));
  const Value row = f.p.input("row", f32, {1, f.n}, sliced(0));
  CHECK_THAT(
      refusal([&] { update(matrix, row); }),
      EndsWith("'matrix' is f32[4, n] sliced(0) and 'row' is f32[1, n] sliced(0); the value's "
               "sliced dimension has extent 1 and is broadcast: all_gather it first"));
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
