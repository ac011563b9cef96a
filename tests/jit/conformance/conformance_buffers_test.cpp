// Kernels that know where buffers end equal the reference: reductions of each buffer, numbers for
// each, and states of such, in slices that cut buffers, on any number of ranks.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "jit/bind/lists.h"
#include "jit/conformance/conformance_batch.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;

namespace {

enum class Lies : std::uint8_t { whole, scattered };

/// A step whose numbers are those of each buffer: some are given, some are kept, some are reduced
/// from gradients and weights.
Program by_buffer(int ranks, DType dtype, Lies lies) {
  Program p("by_buffer", Mesh({{"world", ranks}}));
  const Dim n = p.dim("n");
  const bool whole = lies == Lies::whole;
  const Value g = whole ? p.input("g", dtype, {n}, local) : p.scattered_input("g", dtype, n, local);
  const Value w =
      whole ? p.state("w", dtype, {n}, replicated) : p.scattered_state("w", dtype, n, replicated);
  const Value decay = p.input("decay", dtype, {p.buffers(n)}, replicated);
  const Value scale = p.state("scale", dtype, {p.buffers(n)}, replicated);
  const Value m = p.state("m", dtype, {n}, replicated);
  const Value avg = all_reduce(g, mean).named("avg");
  const Value largest = max(abs(avg), per_buffer).named("largest");
  const Value total = sum(square(w), per_buffer).named("total");
  const Value kept = update(scale, 0.5 * scale + largest / (1 + total));
  const Value m1 = update(m, 0.5 * m + avg + decay * w);
  const Value size = sum(square(m1)).named("size");
  update(w, w - 0.125 * kept * m1 / (1 + size) * decay);
  return p;
}

Schedule fused_by_buffer() {
  return Schedule("fused")
      .split("avg")
      .reorder("avg.all_gather", {"total", "scale.new", "m.new", "w.new"})
      .as_slice("m")
      .dead()
      .fuse("k", "all_reduce",
            {"avg.reduce_scatter", "largest", "total", "scale.new", "m.new", "size", "w.all_gather",
             "w.new"});
}

}  // namespace

TEST_CASE("one kernel reduces, keeps and applies a number for each buffer") {
  ConformanceBatch batch;
  for (const Lies lies : {Lies::whole, Lies::scattered}) {
    for (const DType dtype : {f32, f64, f16, bf16}) {
      for (const int ranks : {1, 2, 3, 4, 8}) {
        const Program program = by_buffer(ranks, dtype, lies);
        CHECK(sched::lower(*ir::graph_of(fused_by_buffer().apply(program).back())).steps.size() ==
              1);
        batch.add(program, fused_by_buffer(), cases_of(lists, 3));
        batch.add(program, Schedule("none"), cases_of(lists, 3));
      }
    }
  }
  batch.require();
}
