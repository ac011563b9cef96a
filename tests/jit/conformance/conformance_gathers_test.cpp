// Kernels read windows, reshapes, zeros around a tensor and what indices name as the reference
// does.
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> sizes_of_rows = {{{"n", 1}}, {{"n", 5}}, {{"n", 33}}};

}  // namespace

TEST_CASE("windows, reshapes and padded tensors equal the reference for every layout") {
  for (const DType dtype : {f32, f64, bf16, i8}) {
    for (const Placement placement : {sliced(0), replicated, local}) {
      const bool is_first = dtype == bf16 && placement == replicated;
      if (!draw() && !is_first) continue;
      INFO(to_string(dtype) << " " << static_cast<int>(placement.kind));
      Program program("moved", Mesh({{"world", 3}}));
      const Dim n = program.dim("n");
      const Value x = program.input("x", dtype, {n, 6, 35}, placement);
      const Value row = program.input("row", dtype, {12}, replicated);
      program.output("alone", window(x, 1, 1, 6, 2).named("alone"));
      program.output("inner", (window(x, 2, 3, 35, 3) + 1).named("inner"));
      program.output("near", (window(x, 2, 2, 19) + window(x, 2, 18, 35)).named("near"));
      program.output("turned", (transpose(x, {0, 2, 1}) + reshape(x, {n, 35, 6})).named("turned"));
      program.output("split", (reshape(x, {n, 3, 5, 14}) + 1).named("split"));
      program.output("flat", reshape(x, {n, 210}).named("flat"));
      program.output("rows", sum(reshape(x, {n, 42, 5}), {2}).named("rows"));
      program.output("columns", max(window(x, 1, 0, 5, 4), {1}).named("columns"));
      program.output("behind", pad(x, 2, 0, 9).named("behind"));
      program.output("around", (pad(x, 1, 1, 2) + pad(x, 1, 2, 1)).named("around"));
      program.output("of_padded", sum(pad(x, 2, 7, 1), {0, 1}).named("of_padded"));
      program.output("line",
                     (pad(row, 0, 3, 1) + window(pad(row, 0, 9, 9), 0, 4, 20)).named("line"));
      require_conforms(program, Schedule("none"), 3, sizes_of_rows);
    }
  }
}

TEST_CASE("what is taken equals the reference for every layout") {
  for (const DType dtype : {f32, f64, f16, i16, boolean}) {
    for (const Placement placement : {sliced(0), replicated, local}) {
      for (const DType counted : {i32, i64}) {
        const bool is_first = dtype == i16 && placement == local && counted == i64;
        if (!draw() && !is_first) continue;
        INFO(to_string(dtype) << " " << static_cast<int>(placement.kind) << " "
                              << to_string(counted));
        Program program("taken", Mesh({{"world", 2}}));
        const Dim n = program.dim("n");
        const Value table = program.state("table", dtype, {3, 19}, replicated);
        const Value line = program.state("line", dtype, {3}, replicated);
        const Value number = program.state("number", dtype, {1}, replicated);
        const Value x = program.input("x", dtype, {n, 7, 4}, placement);
        const Value i = program.input("i", counted, {n, 2}, placement);  // some are outside
        program.output("rows", take(table, i).named("rows"));
        program.output("last", take(table, i, 1).named("last"));
        program.output("numbers", take(line, i).named("numbers"));
        program.output("one", take(number, i).named("one"));
        program.output("between", take(x, program.iota({5}, counted) * 2, 1).named("between"));
        program.output("any", max(cast(take(table, i), f32), {1, 2}).named("any"));
        program.output("most", max(cast(take(line, i), f32), {0}).named("most"));
        if (dtype != boolean) {
          program.output("sum", (take(table, i) + take(table, 2 - i)).named("sum"));
          program.output("of_made", take(table + 1, i).named("of_made"));
        }
        require_conforms(program, Schedule("none"), 2, sizes_of_rows);
      }
    }
  }
}

TEST_CASE("a slice of a table gives each rank its share of what is taken") {
  Program program("taken", Mesh({{"world", 3}}));
  const Dim n = program.dim("n"), rows = program.dim("rows");
  const Value table = program.state("table", f32, {rows, 5}, sliced(0));
  const Value i = program.input("i", i32, {n}, replicated);
  program.output("whole", all_reduce(take(table, i), sum).named("whole"));
  require_conforms(program, Schedule("none"), 3,
                   {{{"n", 9}, {"rows", 4}}, {{"n", 4}, {"rows", 1}}, {{"n", 33}, {"rows", 7}}});
}

TEST_CASE("a single index takes a single element") {
  Program program("taken", Mesh({{"world", 2}}));
  program.dim("n");
  const Value x = program.state("x", f32, {5}, replicated);
  const Value y = program.state("y", f32, {5, 3}, replicated);
  const Value i = program.input("i", i32, {}, replicated);
  program.output("one", take(x, i).named("one"));
  program.output("of_row", take(take(y, i), argmax(x)).named("of_row"));
  program.output("row", take(y, i).named("row"));
  program.output("last", sum(take(y, i, 1)).named("last"));
  program.output("flat", reshape(take(x, reshape(i, {1})), {}).named("flat"));
  require_conforms(program, Schedule("none"), 2, {{{"n", 1}}});
}

TEST_CASE("kernels of a schedule gather, and write what they gather from afterwards") {
  Program program("gathered", Mesh({{"world", 2}}));
  const Dim n = program.dim("n");
  const Value g = program.input("g", f32, {n, 6}, local);
  const Value w = program.state("w", f32, {n, 6}, replicated);
  const Value total = reduce_scatter(g, sum).named("total");
  const Value shifted = (total + pad(window(w, 1, 1, 6), 1, 0, 1)).named("shifted");
  update(w, all_gather(shifted).named("whole"));
  require_conforms(program, Schedule("none"), 2, sizes_of_rows);
  const Schedule fused =
      Schedule("fused").fuse("k", "all_reduce", {"total", "shifted", "whole", "w.new"});
  require_conforms(program, fused, 2, sizes_of_rows);
}
