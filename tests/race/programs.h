// Programs that the race checks run, and the run that looks for races.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jit/conformance/conformance.h"
#include "jit/exchange/kernel_subjects.h"

namespace coconet::test {

/// What a race check runs.
struct Subject {
  Program program;
  Schedule schedule;
  int ranks;
};

/// Of all dimensions that occur. What ranks, threads and vectors do not divide, and what all of
/// them do: only then are accesses vectors.
inline const std::vector<Sizes> race_sizes = {{{"n", 61}, {"m", 37}}, {{"n", 96}, {"m", 64}}};
/// Of reductions: rows that a whole block reduces, and columns of which it reduces a segment.
inline const std::vector<Sizes> reduction_race_sizes = {
    race_sizes[0], race_sizes[1], {{"n", 5}, {"m", 1237}}, {{"n", 20000}, {"m", 12}}};
/// So long that every mailbox is filled again and again.
inline const std::vector<Sizes> long_race_sizes = {{{"n", 61}, {"m", 1}}, {{"n", 8192}, {"m", 1}}};

/// One kernel, of f32.
[[nodiscard]] inline Subject subject_of(const KernelSubject& kernel, int ranks,
                                        const Knobs& knobs = {}) {
  return {kernel.program(ranks, f32), kernel.schedule(knobs), ranks};
}
[[nodiscard]] inline Subject subject_of(std::string_view name, int ranks, const Knobs& knobs = {}) {
  for (const KernelSubject& kernel : kernel_subjects) {
    if (kernel.name == name) return subject_of(kernel, ranks, knobs);
  }
  throw InternalError("there is no kernel subject '" + std::string(name) + "'");
}

/// Reductions over rows, columns and everything, of what is computed on the way, and computation on
/// their results.
[[nodiscard]] inline Subject softmax_rows(int ranks) {
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

/// Reductions over rows and columns, and nothing else.
[[nodiscard]] inline Subject sums(int ranks) {
  Program program("sums", Mesh({{"world", ranks}}));
  const Value x = program.input("x", f32, {program.dim("n"), program.dim("m")}, replicated);
  program.output("columns", sum(x, {0}).named("columns"));
  program.output("rows", sum(x, {1}).named("rows"));
  return {std::move(program), Schedule("none"), ranks};
}

/// Two steps, with other inputs each: a rank that goes on too early writes what another one still
/// reads.
inline void require_no_race(const Subject& subject, const std::vector<Sizes>& sizes = race_sizes) {
  require_conforms(subject.program, subject.schedule, subject.ranks, sizes, 2);
}

}  // namespace coconet::test
