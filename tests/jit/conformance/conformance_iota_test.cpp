// What kernels compute from the index along a dimension equals the reference.
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> sizes = {
    {{"S", 1}, {"T", 1}}, {{"S", 3}, {"T", 2}}, {{"S", 5}, {"T", 67}}, {{"S", 33}, {"T", 16}}};

}  // namespace

TEST_CASE("masks and choices by an index equal the reference for every layout") {
  for (const DType dtype : {f32, f64, bf16}) {
    for (const Placement placement : {replicated, local, sliced(0), sliced(1)}) {
      for (const DType counts : {i32, i64}) {
        INFO(to_string(dtype) << " " << placement.dim << " " << to_string(counts));
        Program program("counted", Mesh({{"world", 3}}));
        const Dim S = program.dim("S"), T = program.dim("T");
        const Value x = program.input("x", dtype, {S, T}, placement);
        const Value row = program.iota({T}, counts), column = program.iota({S, 1}, counts);
        const Value causal = select(row <= column, x, -1).named("causal");
        program.output("causal", causal);
        program.output("largest", max(causal, {1}).named("largest"));
        program.output("of_columns", max(causal, {0}).named("of_columns"));
        program.output("all", max(select(equal(row, column), x, 0)).named("all"));
        const Value label = cast(abs(x) * 4, counts);
        program.output("hot", sum(cast(equal(label, row), i32), {1}).named("hot"));
        program.output("line", row.named("line"));
        program.output("twice", (column * 2).named("twice"));
        require_conforms(program, Schedule("none"), 3, sizes);
      }
    }
  }
}

TEST_CASE("fused collectives compute with an index") {
  for (const char* const protocol : {"simple", "ll"}) {
    Program program("counted", Mesh({{"world", 2}}));
    const Dim S = program.dim("S"), T = program.dim("T");
    const Value g = program.input("g", f32, {S, T}, local);
    const Value w = program.state("w", f32, {S, T}, replicated);
    const Value total = reduce_scatter(g, sum).named("total");
    const Value part = select(program.iota({S, 1}) < program.iota({T}), total, 0).named("part");
    update(w, all_gather(part).named("whole"));
    Knobs knobs;
    knobs.protocol = protocol;
    const Schedule schedule =
        Schedule("fused").fuse("k", "all_reduce", {"total", "part", "whole", "w.new"}, knobs);
    INFO(protocol);
    require_conforms(program, schedule, 2, sizes);
  }
  Program line("counted", Mesh({{"world", 2}}));
  const Dim S = line.dim("S");
  line.dim("T");
  const Value total = reduce_scatter(line.input("g", f32, {S}, local), sum).named("total");
  const Value part = (total + cast(line.iota({S}), f32)).named("part");
  line.output("whole", all_gather(part).named("whole"));
  require_conforms(line, Schedule("fused").fuse("k", "all_reduce", {"total", "part", "whole"}), 2,
                   sizes);
}
