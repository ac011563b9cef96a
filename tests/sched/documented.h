// The example of docs/schedules.md.
#pragma once

#include "coconet/program.h"
#include "coconet/schedule.h"

namespace coconet {

inline Program documented_program() {
  Program p("step", Mesh({{"world", 2}}));
  const Dim n = p.dim("n", 1000);
  const Value g = p.input("g", f32, {n}, local);
  const Value w = p.state("w", f32, {n}, replicated);
  const Value m = p.state("m", f32, {n}, replicated);
  const Value lr = p.scalar("lr");
  const Value avg = all_reduce(g, mean).named("avg");
  const Value kept = (0.9 * m).named("kept");
  const Value m1 = update(m, kept + avg);
  const Value scaled = (lr * m1).named("scaled");
  update(w, w - scaled);
  return p;
}

inline Schedule documented_schedule() {
  return Schedule("fused")
      .split("avg")
      .reorder("avg.all_gather", {"m.new", "w.new"})
      .as_slice("m")
      .dead()
      .fuse("step_fused", "all_reduce", {"avg.reduce_scatter", "m.new", "w.all_gather", "w.new"});
}

}  // namespace coconet
