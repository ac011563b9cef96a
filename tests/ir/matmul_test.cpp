// Matmul: its typing rule, and the reference against loops written by hand.
#include <catch2/catch.hpp>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/reference/reference.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using Catch::Contains;
using Catch::EndsWith;
using test::type_of;

namespace {

/// Operands [M, K] and [K, N] on three ranks.
struct Pair {
  Program p{"p", Mesh({{"world", 3}})};
  Dim m = p.dim("m", 4), k = p.dim("k", 6), n = p.dim("n", 5);
  Value a(Placement placement) { return p.input("a", f32, {m, k}, placement); }
  Value b(Placement placement) { return p.input("b", f32, {k, n}, placement); }
};

std::string layout_of(Placement a, Placement b) {
  Pair pair;
  const Value left = pair.a(a);
  const Value right = pair.b(b);
  return type_of(matmul(left, right).named("y"));
}

std::string refusal_of(Placement a, Placement b) {
  Pair pair;
  const Value left = pair.a(a);
  const Value right = pair.b(b);
  return refusal([&] { (void)matmul(left, right); });
}

}  // namespace

TEST_CASE("a matmul multiplies the last two dimensions and broadcasts the others") {
  Program p("p", Mesh({{"world", 1}}));
  const Dim m = p.dim("m"), k = p.dim("k"), n = p.dim("n");
  const Value a = p.input("a", f16, {7, 1, m, k}, replicated);
  const Value b = p.input("b", f16, {5, k, n}, replicated);
  const Value t = p.input("t", f16, {n, k}, replicated);
  CHECK(type_of(matmul(a, b).named("batched")) == "batched: f16[7, 5, m, n] replicated");
  CHECK(type_of(matmul(a, t, false, true).named("right")) == "right: f16[7, 1, m, n] replicated");
  CHECK(type_of(matmul(b, a, true, true).named("both")) == "both: f16[7, 5, n, m] replicated");
}

TEST_CASE("a matmul's rows and columns come out sliced, and products of slices local") {
  CHECK(layout_of(replicated, replicated) == "y: f32[m, n] replicated");
  CHECK(layout_of(sliced(0), replicated) == "y: f32[m, n] sliced(0)");
  CHECK(layout_of(replicated, sliced(1)) == "y: f32[m, n] sliced(1)");
  CHECK(layout_of(sliced(1), sliced(0)) == "y: f32[m, n] local");
  CHECK(layout_of(local, replicated) == "y: f32[m, n] local");
  CHECK(layout_of(replicated, local) == "y: f32[m, n] local");
  CHECK(layout_of(local, local) == "y: f32[m, n] local");
}

TEST_CASE("a matmul of transposed operands slices the dimensions that they have") {
  Program p("p", Mesh({{"world", 3}}));
  const Value whole = p.input("whole", f32, {4, 4}, replicated);
  const Value first = p.input("first", f32, {4, 4}, sliced(0));
  const Value last = p.input("last", f32, {4, 4}, sliced(1));
  CHECK_THAT(type_of(matmul(last, whole, true)), EndsWith("f32[4, 4] sliced(0)"));
  CHECK_THAT(type_of(matmul(whole, first, false, true)), EndsWith("f32[4, 4] sliced(1)"));
  CHECK_THAT(type_of(matmul(first, last, true, true)), EndsWith("f32[4, 4] local"));
  CHECK_THAT(type_of(matmul(first, first, true)), EndsWith("f32[4, 4] local"));
}

TEST_CASE("batch dimensions come out sliced as either operand is") {
  Program p("p", Mesh({{"a", 2}, {"b", 3}}));
  const Dim h = p.dim("h");
  const Value heads =
      p.input("heads", f32, {h, 4, 5}, Layout::on({{"a", sliced(0)}, {"b", sliced(1)}}));
  const Value alike = p.input("alike", f32, {h, 5, 6}, Layout::on({{"a", sliced(0)}}));
  const Value shared = p.input("shared", f32, {5, 6}, replicated);
  CHECK(type_of(matmul(heads, alike).named("x")) == "x: f32[h, 4, 6] {a: sliced(0), b: sliced(1)}");
  CHECK(type_of(matmul(heads, shared).named("y")) ==
        "y: f32[h, 4, 6] {a: sliced(0), b: sliced(1)}");
}

TEST_CASE("a contraction that is sliced on one side only is refused") {
  CHECK(refusal_of(sliced(1), replicated) ==
        "in program 'p', 'matmul_2' (matmul): along axis 'world' 'a' is f32[m, k] sliced(1) and "
        "'b' is f32[k, n] replicated; the contracted dimension must be sliced on both sides or on "
        "none: slice 'b' alike, or all_gather 'a'");
  CHECK_THAT(refusal_of(sliced(0), sliced(0)), EndsWith("slice 'a' alike, or all_gather 'b'"));
  CHECK_THAT(refusal_of(replicated, sliced(0)), EndsWith("slice 'a' alike, or all_gather 'b'"));
}

TEST_CASE("a matmul of rows and columns sliced along one axis is refused") {
  CHECK_THAT(refusal_of(sliced(0), sliced(1)),
             EndsWith("along axis 'world' 'a' is f32[m, k] sliced(0) and 'b' is f32[k, n] "
                      "sliced(1); every rank would get a block of the result that is a slice of "
                      "two dimensions: all_gather one of the operands"));
}

TEST_CASE("a matmul of local and sliced operands is refused") {
  CHECK_THAT(refusal_of(local, sliced(1)),
             EndsWith("; values of each rank's own and slices of one tensor do not combine: "
                      "reduce_scatter the local operand or all_gather the sliced one"));
}

TEST_CASE("contracted dimensions that differ are refused") {
  Pair pair;
  const Value a = pair.a(replicated);
  const Value b = pair.b(replicated);
  CHECK_THAT(refusal([&] { (void)matmul(a, b, true); }),
             EndsWith("(matmul): 'a' is f32[m, k] replicated and 'b' is f32[k, n] replicated; the "
                      "contracted dimensions 0 of 'a' and 0 of 'b' must be the same, but are m "
                      "and k"));
  const Value six = pair.p.input("six", f32, {6, 2}, replicated);
  CHECK_THAT(refusal([&] { (void)matmul(a, six); }), EndsWith("must be the same, but are k and 6"));
}

TEST_CASE("batch dimensions that do not broadcast are refused") {
  Program p("p", Mesh({{"world", 1}}));
  const Value a = p.input("a", f32, {2, 3, 4}, replicated);
  const Value b = p.input("b", f32, {3, 4, 5}, replicated);
  CHECK_THAT(refusal([&] { (void)matmul(a, b); }),
             EndsWith("; their batch dimensions, all but the last two, do not broadcast: counted "
                      "from the right they must be the same or 1"));
}

TEST_CASE("a sliced batch dimension of extent 1 that is broadcast is refused") {
  Program p("p", Mesh({{"world", 2}}));
  const Value a = p.input("a", f32, {1, 3, 4}, sliced(0));
  const Value b = p.input("b", f32, {2, 4, 5}, replicated);
  CHECK_THAT(refusal([&] { (void)matmul(a, b); }),
             EndsWith("'a' is f32[1, 3, 4] sliced(0), but its sliced dimension has extent 1 and is "
                      "broadcast; all_gather it first"));
}

TEST_CASE("an operand that lacks an outer slice of a batch dimension is refused") {
  Program p("p", Mesh({{"a", 2}, {"b", 2}}));
  const Value x = p.input("x", f32, {8, 3, 4}, Layout::on({{"a", sliced(0)}}));
  const Value y = p.input("y", f32, {8, 4, 5}, Layout::on({{"b", sliced(0)}}));
  CHECK_THAT(refusal([&] { (void)matmul(x, y); }),
             EndsWith("but the result's dimension 0 is sliced along axis 'a' first; slice the "
                      "operand along 'a' too, or all_gather it along 'b'"));
}

TEST_CASE("a matmul takes tensors of floats with two dimensions and one dtype") {
  Program p("p", Mesh({{"world", 1}}));
  const Value a = p.input("a", f32, {4, 4}, replicated);
  const Value v = p.input("v", f32, {4}, replicated);
  const Value i = p.input("i", i32, {4, 4}, replicated);
  const Value h = p.input("h", f16, {4, 4}, replicated);
  CHECK_THAT(refusal([&] { (void)matmul(a, v); }),
             EndsWith("(matmul): 'v' is f32[4] replicated; matmul takes tensors of at least 2 "
                      "dimensions: declare it with one of extent 1"));
  CHECK_THAT(refusal([&] { (void)matmul(i, i); }),
             EndsWith("'i' is i32[4, 4] replicated; matmul takes floats: cast it first"));
  CHECK_THAT(refusal([&] { (void)matmul(a, h); }),
             EndsWith("the dtypes differ: 'a' is f32[4, 4] replicated and 'h' is f16[4, 4] "
                      "replicated; cast one of them"));
  CHECK_THAT(refusal([&] { (void)matmul(p.scalar("s"), a); }),
             EndsWith("'s' is a number; matmul takes tensors"));
  CHECK(refusal([&] { (void)matmul(a, 2); }) ==
        "matmul takes a tensor of a program, but its operand is the constant 2.000000");
}

TEST_CASE("a matmul prints with what is transposed") {
  Program p("p", Mesh({{"world", 1}}));
  const Value a = p.input("a", f32, {4, 4}, replicated);
  (void)matmul(a, a).named("plain");
  (void)matmul(a, a, false, true).named("right");
  (void)matmul(a, a, true, true).named("both");
  CHECK_THAT(p.str(), Contains("  matmul(a, a)\n"));
  CHECK_THAT(p.str(), Contains("  matmul(a, a, transpose_b)\n"));
  CHECK_THAT(p.str(), Contains("  matmul(a, a, transpose_a, transpose_b)\n"));
}

TEST_CASE("the reference multiplies matrices, transposed or not") {
  Program p("p", Mesh({{"world", 1}}));
  const Value a = p.input("a", f32, {2, 3}, replicated);
  const Value b = p.input("b", f32, {3, 2}, replicated);
  p.output("plain", matmul(a, b));
  p.output("left", matmul(a, a, true));
  p.output("right", matmul(a, a, false, true));
  p.output("both", matmul(a, b, true, true));
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("a", {{1, 2, 3, 4, 5, 6}});
  reference.set("b", {{7, 8, 9, 10, 11, 12}});
  reference.run({});
  CHECK(reference.get("plain")[0] == ir::Data{58, 64, 139, 154});
  CHECK(reference.get("left")[0] == ir::Data{17, 22, 27, 22, 29, 36, 27, 36, 45});
  CHECK(reference.get("right")[0] == ir::Data{14, 32, 32, 77});
  CHECK(reference.get("both")[0] == ir::Data{39, 49, 59, 54, 68, 82, 69, 87, 105});
}

TEST_CASE("the reference broadcasts batch dimensions of a matmul") {
  Program p("p", Mesh({{"world", 1}}));
  const Value a = p.input("a", f32, {2, 1, 1, 2}, replicated);
  const Value b = p.input("b", f32, {3, 2, 1}, replicated);
  p.output("y", matmul(a, b));
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("a", {{1, 2, 10, 20}});
  reference.set("b", {{1, 1, 2, 3, 4, 5}});
  reference.run({});
  CHECK(reference.get("y")[0] == ir::Data{3, 8, 14, 30, 80, 140});
}

TEST_CASE("the reference's products of slices sum to the whole") {
  Pair pair;
  const Value a = pair.a(sliced(1));
  const Value b = pair.b(sliced(0));
  pair.p.output("y", all_reduce(matmul(a, b), sum));
  ir::Reference reference(*ir::graph_of(pair.p), {{"m", 1}, {"k", 4}, {"n", 2}});
  reference.set("a", {{1, 2}, {3, 4}, {}});  // blocks of two, of which the last rank gets none
  reference.set("b", {{1, 2, 3, 4}, {5, 6, 7, 8}, {}});
  reference.run({});
  for (const ir::Data& part : reference.get("y")) CHECK(part == ir::Data{50, 60});
}
