// Programs that the race checks run, and the run that looks for races.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jit/conformance.h"

namespace coconet::test {

/// What a race check runs.
struct Subject {
  Program program;
  Schedule schedule;
  int ranks;
};

/// Of all dimensions that occur. What ranks, threads and vectors do not divide, and what all of them do: only then are
/// accesses vectors.
inline const std::vector<Sizes> race_sizes = {{{"n", 61}, {"m", 37}}, {{"n", 96}, {"m", 64}}};

/// One kernel called `kernel`, of whole tensors: x += 2 * the sum of all ranks' g.
[[nodiscard]] inline Subject fused_all_reduce(int ranks, const std::string& kernel,
                                              Knobs knobs = {}) {
  Program program("reduce_and_write", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n"), m = program.dim("m");
  const Value g = program.input("g", f32, {n, m}, local);
  const Value x = program.state("x", f32, {n, m}, replicated);
  update(x, x + 2 * all_reduce(g, sum).named("total")).named("x.new");
  Schedule schedule("fused");
  schedule.split("total").reorder("total.all_gather", {"x.new"}).dead();
  schedule.fuse(kernel, "all_reduce", {"total.reduce_scatter", "x.all_gather", "x.new"},
                std::move(knobs));
  return {std::move(program), std::move(schedule), ranks};
}

/// The same row by row: in slices of columns, with an operand that all rows share.
[[nodiscard]] inline Subject fused_rows(int ranks, const std::string& kernel) {
  Program program("reduce_and_write_rows", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n"), m = program.dim("m");
  const Value g = program.input("g", f32, {n, m}, local);
  const Value bias = program.input("bias", f32, {m}, replicated);
  const Value x = program.state("x", f32, {n, m}, replicated);
  update(x, x + 2 * (all_reduce(g, sum).named("total") + bias)).named("x.new");
  Schedule schedule("fused");
  schedule.split("total", "reduce_scatter+all_gather", 1);
  schedule.reorder("total.all_gather", {"x.new"}).dead();
  schedule.fuse(kernel, "all_reduce", {"total.reduce_scatter", "x.all_gather", "x.new"});
  return {std::move(program), std::move(schedule), ranks};
}

/// Reductions over rows, columns and everything, of what is computed on the way, and computation on their results.
[[nodiscard]] inline Subject softmax(int ranks) {
  Program program("softmax", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n"), m = program.dim("m");
  const Value x = program.input("x", f32, {n, m}, sliced(0));
  const Value w = program.input("w", f32, {m}, replicated);
  const Value y = program.state("y", f32, {n, m}, sliced(0));
  const Value exponential = exp(x * w - max(x * w, {1}, true)).named("exponential");
  update(y, exponential / sum(exponential, {1}, true));
  program.output("columns", sum(x, {0}).named("columns"));
  program.output("everything", norm(x * w).named("everything"));
  return {std::move(program), Schedule("none"), ranks};
}

/// Two steps, with other inputs each: a rank that goes on too early writes what another one still reads.
inline void require_no_race(const Subject& subject, const std::vector<Sizes>& sizes = race_sizes) {
  require_conforms(subject.program, subject.schedule, subject.ranks, sizes, 2);
}

}  // namespace coconet::test
