// Broadcasting over every layout equals the reference, on any number of ranks and with sizes that
// do not divide.
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

struct Layouts {
  const char* name;
  Placement matrix;               ///< of [B, H]
  Placement row = replicated;     ///< of [H]
  Placement column = replicated;  ///< of [B, 1]
};

const Layouts layouts[] = {
    {"replicated", replicated},
    {"local", local},
    {"local beside replicated", local, local, replicated},
    {"rows", sliced(0)},
    {"rows, the column alike", sliced(0), replicated, sliced(0)},
    {"columns", sliced(1)},
    {"columns, the row alike", sliced(1), sliced(0), replicated},
};

const std::vector<Sizes> layout_sizes = {
    {{"B", 1}, {"H", 1}, {"C", 1}},   {{"B", 5}, {"H", 7}, {"C", 2}},
    {{"B", 2}, {"H", 3}, {"C", 1}},   {{"B", 17}, {"H", 1}, {"C", 3}},
    {{"B", 1}, {"H", 130}, {"C", 4}}, {{"B", 33}, {"H", 65}, {"C", 1}},
};

/// The placement of a [B, H] tensor seen as the last dimensions of a [C, B, H] one.
Placement behind_one(Placement placement) {
  if (placement.kind == Placement::Kind::sliced) ++placement.dim;
  return placement;
}

Program broadcasting(int ranks, const Layouts& layout, DType dtype) {
  Program program("broadcasting", Mesh({{"world", ranks}}));
  const Dim B = program.dim("B"), H = program.dim("H"), C = program.dim("C");
  const Value x = program.input("x", dtype, {B, H}, layout.matrix);
  const Value h = program.input("h", dtype, {H}, layout.row);
  const Value b = program.input("b", dtype, {B, 1}, layout.column);
  const Value one = program.input("one", dtype, {1, 1, 1}, replicated);
  const Value s = program.input("s", dtype, {}, replicated);
  const Value t = program.input("t", dtype, {C, B, H}, behind_one(layout.matrix));
  const Value y = program.state("y", dtype, {B, H}, layout.matrix);
  program.output("matrix", (x * h + b - s).named("matrix"));
  program.output("narrow", (b * s).named("narrow"));
  program.output("cube", (t + x * one - h * b).named("cube"));
  update(y, maximum(y, x) + h).named("y.new");
  return program;
}

}  // namespace

TEST_CASE("broadcasting equals the reference for every layout") {
  for (const int ranks : {1, 2, 3}) {
    for (const Layouts& layout : layouts) {
      INFO(layout.name);
      require_conforms(broadcasting(ranks, layout, f32), Schedule("none"), ranks, layout_sizes, 2);
    }
  }
}

TEST_CASE("broadcasting equals the reference for every width of an element") {
  for (const DType dtype : {f64, bf16, i8}) {
    for (const Layouts& layout : {layouts[3], layouts[5]}) {
      INFO(layout.name << ", " << to_string(dtype));
      require_conforms(broadcasting(2, layout, dtype), Schedule("none"), 2, layout_sizes);
    }
  }
}

TEST_CASE("tensors of several widths go through one kernel") {
  for (const Placement placement : {replicated, sliced(0), sliced(1)}) {
    Program program("widths", Mesh({{"world", 3}}));
    const Dim B = program.dim("B"), H = program.dim("H");
    const Value x = program.input("x", f16, {B, H}, placement);
    const Value h = program.input("h", f64, {H}, replicated);
    const Value flags = program.input("flags", boolean, {B, 1}, replicated);
    const Value i = program.input("i", i8, {B, H}, placement);
    const Value mixed = cast(cast(x, f64) * h, f32) + cast(i, f32);
    program.output("mixed", select(flags, mixed, -1).named("mixed"));
    program.output("low", cast(mixed, f16).named("low"));
    program.output("positive", (mixed > 0).named("positive"));
    require_conforms(program, one_kernel("widths", {"mixed", "low", "positive"}), 3,
                     {Sizes{{"B", 1}, {"H", 1}}, Sizes{{"B", 7}, {"H", 67}}});
  }
}

TEST_CASE("transposed tensors equal the reference for every layout and width") {
  for (const DType dtype : {f64, f32, bf16, u8}) {
    for (const Placement placement : {replicated, local, sliced(0), sliced(1), sliced(2)}) {
      INFO(to_string(dtype) << " " << placement.dim);
      Program program("transposed", Mesh({{"world", 3}}));
      const Dim B = program.dim("B"), H = program.dim("H"), C = program.dim("C");
      const Value x = program.input("x", dtype, {B, C, H}, placement);
      const Value row = program.input("row", dtype, {1, B}, replicated);
      const Value w = program.state("w", dtype, {H, H}, replicated);
      const Value inner = transpose(x, {1, 0, 2}).named("inner");
      const Value outer = transpose(x, {2, 1, 0}).named("outer");
      program.output("rows", (inner + transpose(row, {1, 0})).named("rows"));
      program.output("columns", (outer * row).named("columns"));
      program.output("alone", transpose(x, {1, 2, 0}).named("alone"));
      program.output("largest", max(outer, {1, 2}).named("largest"));
      program.output("least", min(transpose(x, {2, 0, 1}), {0}).named("least"));
      program.output("all", max(inner).named("all"));
      program.output("both",
                     (abs(x) + transpose(transpose(x, {2, 0, 1}) + 1, {1, 2, 0})).named("both"));
      update(w, maximum(w, transpose(w, {1, 0})) + 1);
      require_conforms(program, Schedule("none"), 3, layout_sizes, 2);
    }
  }
}

TEST_CASE("fused collectives read transposed operands") {
  for (const char* const protocol : {"simple", "ll"}) {
    for (const int dim : {0, 1}) {
      Program program("transposed", Mesh({{"world", 2}}));
      const Dim B = program.dim("B"), H = program.dim("H");
      const Value g = program.input("g", f32, {B, H}, local);
      const Value mask = program.input("mask", f32, {H, B}, replicated);
      const Value w = program.state("w", f32, {B, H}, replicated);
      const Value total = reduce_scatter(g, sum, dim).named("total");
      const Value part = (total * transpose(mask, {1, 0})).named("part");
      update(w, all_gather(part).named("whole"));
      program.output("norm", sum(square(part)).named("norm"));
      Knobs knobs;
      knobs.protocol = protocol;
      const Schedule schedule =
          Schedule("fused").fuse("k", "all_reduce", {"total", "part", "whole", "w.new"}, knobs);
      INFO(protocol << ", dimension " << dim);
      require_conforms(
          program, schedule, 2,
          {Sizes{{"B", 1}, {"H", 1}}, Sizes{{"B", 5}, {"H", 70}}, Sizes{{"B", 64}, {"H", 2}}});
    }
  }
}

TEST_CASE("slices, what is computed from them and their reductions equal the reference") {
  for (const int ranks : {1, 2, 3}) {
    for (const int dim : {0, 1}) {
      for (const DType dtype : {f32, i8}) {
        INFO(to_string(dtype) << ", dimension " << dim);
        Program program("slices", Mesh({{"world", ranks}}));
        const Dim B = program.dim("B"), H = program.dim("H");
        const Value x = program.input("x", dtype, {B, H}, replicated);
        const Value h = program.input("h", dtype, {H}, replicated);
        program.output("block", slice(x, dim).named("block"));
        program.output("shifted", (slice(x * 2, dim) + h).named("shifted"));
        program.output("largest", max(slice(abs(x), dim)).named("largest"));
        program.output("rows", max(slice(x - h, dim), {1}).named("rows"));
        require_conforms(
            program, Schedule("none"), ranks,
            {Sizes{{"B", 1}, {"H", 1}}, Sizes{{"B", 5}, {"H", 7}}, Sizes{{"B", 2}, {"H", 65}}});
      }
    }
  }
}

TEST_CASE("layouts along two axes equal the reference") {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  const std::vector<std::pair<const char*, Layout>> cases = {
      {"a slices rows, b columns", Layout::on({{"a", sliced(0)}, {"b", sliced(1)}})},
      {"both slice rows", Layout::on({{"a", sliced(0)}, {"b", sliced(0)}})},
      {"a slices columns, b is local", Layout::on({{"a", sliced(1)}, {"b", local}})},
      {"b slices rows", Layout::on({{"b", sliced(0)}})},
  };
  for (const auto& [name, layout] : cases) {
    INFO(name);
    Program program("two_axes", mesh);
    const Dim B = program.dim("B"), H = program.dim("H");
    const Value x = program.input("x", f32, {B, H}, layout);
    const Value h = program.input("h", f32, {H}, replicated);
    const Value y = program.state("y", f32, {B, H}, layout);
    update(y, y + x * h);
    program.output("squares", square(x));
    require_conforms(
        program, Schedule("none"), 4,
        {Sizes{{"B", 1}, {"H", 1}}, Sizes{{"B", 5}, {"H", 7}}, Sizes{{"B", 17}, {"H", 3}}}, 2);
  }
}

TEST_CASE("collectives over a dimension that two axes slice equal the reference") {
  const std::vector<Sizes> sizes = {
      {{"B", 1}, {"H", 1}}, {{"B", 5}, {"H", 3}}, {{"B", 7}, {"H", 2}}, {{"B", 4099}, {"H", 2}}};
  // One mesh has more ranks than rows along an axis.
  for (const Mesh& mesh : {Mesh({{"a", 2}, {"b", 2}}), Mesh({{"a", 3}, {"b", 2}})}) {
    Program program("nested", mesh);
    const Dim B = program.dim("B"), H = program.dim("H");
    const Value x = program.input("x", f32, {B, H}, local);
    const Value z = program.input("z", f32, {B, H}, Layout::on({{"a", sliced(0)}, {"b", local}}));
    const Value s =
        program.state("s", f32, {B, H}, Layout::on({{"a", sliced(0)}, {"b", sliced(0)}}));
    const Value outer = reduce_scatter(x, sum, 0, "a").named("outer");
    const Value part = reduce_scatter(outer, sum, 0, "b").named("part");
    const Value stepped =
        (part + s + reduce_scatter(z, max, 0, "b").named("most")).named("stepped");
    update(s, stepped);
    program.output("back", all_gather(stepped, "b").named("back"));
    program.output("whole", all_gather(all_gather(stepped, "b").named("rows"), "a").named("whole"));
    program.output("columns", all_to_all(stepped, 1, "b").named("columns"));
    program.output("rows_again", all_to_all(all_to_all(s, 1, "b"), 0, "b").named("rows_again"));
    program.output("slices", slice(slice(all_gather(all_gather(s, "b"), "a"), 0, "a"), 0, "b"));
    program.output("total", sum(stepped).named("total"));
    const int ranks = mesh.size();
    require_conforms(program, Schedule("unfused"), ranks, sizes, 2);
    require_conforms(program,
                     Schedule("fused").fuse("inner", "all_reduce", {"part", "stepped", "rows"}),
                     ranks, sizes, 2);
    require_conforms(program,
                     Schedule("one_side")
                         .fuse("scatters", "reduce_scatter", {"part", "stepped"})
                         .fuse("gathers", "all_gather", {"whole"}),
                     ranks, sizes, 2);
  }
}

TEST_CASE("a sum over two axes is split along both, one inside the other, and a state kept so") {
  Program program("both", Mesh({{"a", 2}, {"b", 2}}));
  const Dim n = program.dim("n");
  const Value w = program.state("w", f32, {n}, replicated);
  const Value sum_a = all_reduce(program.input("g", f32, {n}, local), sum, "a").named("sum_a");
  update(w, w - all_reduce(sum_a, mean, "b").named("avg"));
  const Schedule along_a =
      Schedule("along a").split("sum_a").reorder("sum_a.all_gather", {"w.new"});
  const Schedule along_both =
      Schedule(along_a).split("avg").reorder("avg.all_gather", {"w.slice"}).dead();
  const Schedule in_parts = Schedule(along_both).as_slice("w").as_slice("w").dead();
  const Program parts = in_parts.apply(program).back();
  CHECK(ir::describe(*ir::graph_of(parts), ir::graph_of(parts)->require("w")) ==
        "w: f32[n] {a: sliced(0), b: sliced(0)}");
  for (const Schedule& schedule : {along_a, along_both, in_parts}) {
    require_conforms(program, schedule, 4, {Sizes{{"n", 1}}, Sizes{{"n", 7}}, Sizes{{"n", 5000}}},
                     2);
  }
}
