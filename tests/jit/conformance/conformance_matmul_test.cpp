// Matmuls equal the reference: every float dtype, layout and transposition, on any number of ranks
// and with sizes that do not divide.
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

// Sums of products of both signs may nearly cancel; errors are measured against the result's size
// as a whole.
const std::vector<Sizes> matmul_sizes = {
    {{"M", 1}, {"N", 1}, {"K", 1}},    {{"M", 1}, {"N", 7}, {"K", 5}},
    {{"M", 5}, {"N", 1}, {"K", 3}},    {{"M", 3}, {"N", 2}, {"K", 1}},
    {{"M", 17}, {"N", 33}, {"K", 67}}, {{"M", 300}, {"N", 5}, {"K", 130}},
};

struct Factors {
  const char* name;
  Placement a;  ///< of [M, K]
  Placement b;  ///< of [K, N]
};
const Factors factors[] = {
    {"replicated", replicated, replicated}, {"rows", sliced(0), replicated},
    {"columns", replicated, sliced(1)},     {"contraction", sliced(1), sliced(0)},
    {"local", local, replicated},           {"both local", local, local},
};

Placement transposed(Placement placement) {
  if (placement.kind == Placement::Kind::sliced) placement.dim = 1 - placement.dim;
  return placement;
}

/// All four transpositions in one program.
Program products(int ranks, const Factors& layout, DType dtype) {
  Program program("products", Mesh({{"world", ranks}}));
  const Dim M = program.dim("M"), N = program.dim("N"), K = program.dim("K");
  const Value a = program.input("a", dtype, {M, K}, layout.a);
  const Value b = program.input("b", dtype, {K, N}, layout.b);
  const Value at = program.input("at", dtype, {K, M}, transposed(layout.a));
  const Value bt = program.input("bt", dtype, {N, K}, transposed(layout.b));
  program.output("plain", matmul(a, b).named("plain"));
  program.output("left", matmul(at, b, true).named("left"));
  program.output("right", matmul(a, bt, false, true).named("right"));
  program.output("both", matmul(at, bt, true, true).named("both"));
  return program;
}

/// Of 16-bit floats: OpenBLAS sums in f32 and another order, which may round to the other side.
std::vector<Checked> cases_of(DType dtype) {
  std::vector<Checked> cases = cases_with(matmul_sizes, 1);
  for (Checked& checked : cases) {
    if (dtype == f64) checked.options.tolerance = 1e-13;
  }
  return cases;
}

}  // namespace

TEST_CASE("matmuls of f32 equal the reference for every layout and number of ranks") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const Factors& layout : factors) {
      INFO(layout.name);
      require_conforms(products(ranks, layout, f32), Schedule("none"), ranks, cases_of(f32));
    }
  }
}

TEST_CASE("matmuls of every float dtype equal the reference for every layout") {
  for (const DType dtype : all_dtypes) {
    if (!is_float(dtype)) continue;
    for (const Factors& layout : factors) {
      INFO(layout.name << ", " << to_string(dtype));
      require_conforms(products(3, layout, dtype), Schedule("none"), 3, cases_of(dtype));
    }
  }
}

TEST_CASE("batched matmuls equal the reference, broadcast and sliced") {
  for (const int ranks : {1, 2, 3}) {
    for (const DType dtype : {f32, bf16}) {
      Program program("batched", Mesh({{"world", ranks}}));
      const Dim B = program.dim("B"), M = program.dim("M"), N = program.dim("N"),
                K = program.dim("K");
      const Value x = program.input("x", dtype, {B, M, K}, replicated);
      const Value heads = program.input("heads", dtype, {B, M, K}, sliced(0));
      const Value rows = program.input("rows", dtype, {B, M, K}, sliced(1));
      const Value w = program.input("w", dtype, {K, N}, replicated);
      const Value wt = program.input("wt", dtype, {N, K}, replicated);
      const Value each = program.input("each", dtype, {B, K, N}, replicated);
      const Value outer = program.input("outer", dtype, {2, 1, K, N}, replicated);
      program.output("folded", matmul(x, w).named("folded"));
      program.output("folded_slices", matmul(heads, w).named("folded_slices"));
      program.output("rows_of_each", matmul(rows, w).named("rows_of_each"));
      program.output("right", matmul(heads, wt, false, true).named("right"));
      program.output("left", matmul(heads, x, true).named("left"));
      program.output("at_the_slice", matmul(heads, each).named("at_the_slice"));
      program.output("cross", matmul(x, outer).named("cross"));
      program.output("shared_left", matmul(wt, x, false, true).named("shared_left"));
      require_conforms(program, Schedule("none"), ranks,
                       {Sizes{{"B", 1}, {"M", 1}, {"N", 1}, {"K", 1}},
                        Sizes{{"B", 2}, {"M", 3}, {"N", 5}, {"K", 7}},
                        Sizes{{"B", 5}, {"M", 17}, {"N", 9}, {"K", 33}}});
    }
  }
}

TEST_CASE("products with a bias equal the reference, whoever adds it") {
  for (const int ranks : {1, 3}) {
    Program program("biased", Mesh({{"world", ranks}}));
    const Dim B = program.dim("B"), M = program.dim("M"), N = program.dim("N"),
              K = program.dim("K");
    const Value x = program.input("x", f32, {B, M, K}, replicated);
    const Value rows = program.input("rows", f32, {M, K}, sliced(0));
    const Value w = program.input("w", f32, {K, N}, replicated);
    const Value columns = program.input("columns", f32, {K, N}, sliced(1));
    const Value each = program.input("each", f32, {B, K, N}, replicated);
    const Value b = program.input("b", f32, {N}, replicated);
    const Value row = program.input("row", f32, {1, 1, N}, replicated);
    const Value slice_of_b = program.input("slice_of_b", f32, {N}, sliced(0));
    const Value empty = program.input("empty", f32, {M, K}, sliced(1));  // on ranks from K on
    const Value parts = program.input("parts", f32, {K, N}, sliced(0));
    const Value own = program.input("own", f32, {N}, local);
    const std::vector<Value> sums = {matmul(x, w) + b,
                                     b + matmul(rows, w),
                                     matmul(rows, w) * 1.0 + b,
                                     matmul(x, columns) + b,
                                     matmul(x, columns) + slice_of_b,
                                     matmul(x, each) + row,
                                     matmul(empty, parts) + own};
    std::vector<std::string> names;
    for (const Value& sum : sums) {
      names.push_back("sum" + std::to_string(names.size()));
      program.output(names.back(), Value(sum).named(names.back()));
    }
    Schedule apart("apart");
    for (const std::string& name : names) apart.fuse("adds_" + name, "computation", {name});
    const std::vector<Sizes> sizes = {{{"B", 1}, {"M", 1}, {"N", 1}, {"K", 1}},
                                      {{"B", 2}, {"M", 3}, {"N", 5}, {"K", 7}},
                                      {{"B", 5}, {"M", 67}, {"N", 9}, {"K", 33}}};
    require_conforms(program, Schedule("together"), ranks, sizes);
    require_conforms(program, apart, ranks, sizes);
  }
}

TEST_CASE("matmuls over two mesh axes equal the reference") {
  Program program("two_axes", Mesh({{"dp", 2}, {"tp", 2}}));
  const Dim M = program.dim("M"), N = program.dim("N"), K = program.dim("K");
  const Value a =
      program.input("a", f32, {M, K}, Layout::on({{"dp", sliced(0)}, {"tp", sliced(1)}}));
  const Value b = program.input("b", f32, {K, N}, Layout::on({{"tp", sliced(0)}}));
  const Value c = program.input("c", f32, {M, K}, Layout::on({{"dp", sliced(0)}}));
  const Value d = program.input("d", f32, {K, N}, Layout::on({{"tp", sliced(1)}}));
  const Value e =
      program.input("e", f32, {M, K}, Layout::on({{"dp", sliced(1)}, {"tp", sliced(1)}}));
  const Value f =
      program.input("f", f32, {K, N}, Layout::on({{"dp", sliced(0)}, {"tp", sliced(0)}}));
  program.output("contracted", all_reduce(matmul(a, b), sum, "tp").named("contracted"));
  program.output("blocks", matmul(c, d).named("blocks"));
  program.output("nested",
                 all_reduce(all_reduce(matmul(e, f), sum, "dp"), sum, "tp").named("nested"));
  require_conforms(program, Schedule("none"), 4, cases_of(f32));
}

TEST_CASE("a block of a model-parallel layer equals the reference, scheduled or not") {
  for (const int ranks : {1, 2, 3}) {
    Program program("block", Mesh({{"world", ranks}}));
    const Dim B = program.dim("B"), H = program.dim("H"), O = program.dim("O");
    const Value x = program.input("x", f32, {B, 2, H}, sliced(2));
    const Value w = program.input("w", f32, {H, O}, sliced(0));
    const Value b = program.input("b", f32, {O}, replicated);
    const Value r = program.state("r", f32, {B, 2, O}, replicated);
    const Value total = all_reduce(matmul(x, w).named("products"), sum).named("total");
    update(r, dropout(total + b, 0.1, 5, program.scalar("t")) + r).named("r.new");
    for (const Schedule& schedule : {Schedule("none"), fused_update("r", 2)}) {
      require_conforms(program, schedule, ranks,
                       {Sizes{{"B", 1}, {"H", 1}, {"O", 1}}, Sizes{{"B", 3}, {"H", 7}, {"O", 5}},
                        Sizes{{"B", 9}, {"H", 64}, {"O", 67}}},
                       2);
    }
  }
}

TEST_CASE("a matmul reads what was computed before it and may be written to a state") {
  Program program("around", Mesh({{"world", 2}}));
  const Dim M = program.dim("M"), K = program.dim("K");
  const Value w = program.state("w", f32, {M, K}, replicated);
  const Value x = program.input("x", f32, {K, M}, replicated);
  const Value square_of_w = matmul(w, gelu(x).named("g")).named("mm");
  update(w, matmul(relu(square_of_w), w).named("next")).named("w.new");
  require_conforms(program, Schedule("none"), 2,
                   {Sizes{{"M", 1}, {"K", 1}}, Sizes{{"M", 7}, {"K", 5}}}, 2);
}
