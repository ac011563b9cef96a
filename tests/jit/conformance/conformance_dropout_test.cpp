// Dropout draws the reference's mask in every kind of kernel and under every layout and schedule.
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> mask_areas = {{{"B", 1}, {"H", 1}},
                                       {{"B", 2}, {"H", 3}},
                                       {{"B", 5}, {"H", 67}},
                                       {{"B", 33}, {"H", 1}},
                                       {{"B", 17}, {"H", 64}}};

/// Dropout of tensors that lie as the kernel's domain does, and of some that are broadcast there.
Program masks(int ranks, Placement placement, DType dtype) {
  Program program("masks", Mesh({{"world", ranks}}));
  const Dim B = program.dim("B"), H = program.dim("H");
  const Value t = program.scalar("t");
  const Value x = program.input("x", dtype, {B, H}, placement);
  const Value y = program.state("y", dtype, {B, H}, placement);
  const Value h = program.input("h", dtype, {H}, replicated);
  const Value column = program.input("column", dtype, {B, 1}, replicated);
  program.output("plain", dropout(x, 0.3, 17).named("plain"));
  program.output("twice", dropout(dropout(x, 0.5, 1, t) + y, 0.1, 2, t + 1).named("twice"));
  program.output("all", dropout(x, 0, 3).named("all"));
  program.output("none", dropout(x, 1 - 0x1p-40, 3).named("none"));
  program.output(
      "beside",
      (x + dropout(h, 0.5, ~std::uint64_t{0}, t) * dropout(column, 0.5, 4)).named("beside"));
  update(y, dropout(y, 0.2, 5, t * 1000000007)).named("y.new");
  return program;
}

Schedule in_one_kernel() {
  return one_kernel("masks", {"plain", "twice", "all", "none", "beside", "y.new"});
}

}  // namespace

TEST_CASE("dropout equals the reference for every layout and number of ranks") {
  for (const int ranks : {1, 2, 3}) {
    for (const Placement placement : {replicated, local, sliced(0), sliced(1)})
      require_conforms(masks(ranks, placement, f32), in_one_kernel(), ranks, mask_areas, 2);
  }
}

TEST_CASE("dropout equals the reference for every float dtype") {
  for (const DType dtype : all_dtypes) {
    if (!is_float(dtype)) continue;
    for (const Placement placement : {sliced(0), sliced(1)})
      require_conforms(masks(2, placement, dtype), in_one_kernel(), 2, mask_areas);
  }
}

TEST_CASE("reductions read what dropout computes on the way") {
  for (const int ranks : {1, 2, 3}) {
    for (const Placement placement : {replicated, local, sliced(0), sliced(1)}) {
      Program program("reduced", Mesh({{"world", ranks}}));
      const Dim B = program.dim("B"), H = program.dim("H");
      const Value x = program.input("x", f64, {B, H}, placement);
      const Value h = program.input("h", f64, {H}, replicated);
      const Value t = program.scalar("t");
      program.output("all", sum(dropout(x, 0.5, 1, t)).named("all"));
      program.output("rows", sum(dropout(x, 0.5, 1, t), {1}).named("rows"));
      program.output("columns", max(dropout(x, 0.5, 1, t), {0}).named("columns"));
      program.output("broadcast", sum(x * dropout(h, 0.5, 1, t), {0}).named("broadcast"));
      require_conforms(program, Schedule("none"), ranks, mask_areas);
    }
  }
}

TEST_CASE("dropout between the halves of a fused all_reduce equals the reference") {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const int dim : {0, 1}) {
      Program program("residual", Mesh({{"world", ranks}}));
      const Dim B = program.dim("B"), H = program.dim("H");
      const Value g = program.input("g", f32, {B, H}, local);
      const Value bias = program.input("bias", f32, {H}, replicated);
      const Value r = program.state("r", f32, {B, H}, replicated);
      const Value t = program.scalar("t");
      const Value total = all_reduce(g, sum).named("total");
      update(r, dropout(total + bias, 0.1, 42, t) + r).named("r.new");
      require_conforms(program, fused_update("r", dim), ranks, mask_areas, 3);
    }
  }
}

TEST_CASE("dropout over two mesh axes equals the reference") {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  for (const Layout& layout : {Layout::on({{"a", sliced(0)}, {"b", sliced(1)}}),
                               Layout::on({{"a", sliced(0)}, {"b", sliced(0)}}),
                               Layout::on({{"a", local}, {"b", sliced(1)}})}) {
    Program program("two_axes", mesh);
    const Dim B = program.dim("B"), H = program.dim("H");
    const Value x = program.input("x", f32, {B, H}, layout);
    program.output("d", dropout(x, 0.5, 9).named("d"));
    require_conforms(program, Schedule("none"), 4, mask_areas);
  }
}
