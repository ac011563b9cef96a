// Runs programs on ranks that are threads and requires what they compute to equal the reference.
// What the conformance tests iterate over comes from the library's tables, so that a new row is
// tested without an edit here.
#pragma once

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "cli/check.h"
#include "coconet/coconet.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "jit/platform/cuda/facts.h"
#include "sample.h"
#include "sched/knobs.h"

namespace coconet::test {

inline constexpr Reduction all_reductions[] = {Reduction::sum, Reduction::mean, Reduction::max,
                                               Reduction::min, Reduction::prod};

/// Whether a collective or a reduction takes `dtype` with `reduction`.
[[nodiscard]] inline bool reduces(Reduction reduction, DType dtype) {
  return dtype != DType::boolean && (reduction != Reduction::mean || is_float(dtype));
}

/// Whether a pointwise op of `rule` takes operands of `dtype`; those of `choose` are its two
/// choices.
[[nodiscard]] inline bool accepts(ir::DTypeRule rule, DType dtype) {
  switch (rule) {
    case ir::DTypeRule::numeric:
      return dtype != DType::boolean;
    case ir::DTypeRule::floating:
      return is_float(dtype);
    case ir::DTypeRule::logical:
      return dtype == DType::boolean;
    case ir::DTypeRule::compare:
    case ir::DTypeRule::choose:
      return true;
  }
  return false;
}

/// `row` of `operands`, of which it takes as many as it has; the first of `choose` is `condition`.
[[nodiscard]] inline Value apply_row(const ir::PointwiseRow& row, const Value& condition,
                                     const std::vector<Value>& operands) {
  const auto at = [&](std::size_t i) {
    if (row.rule != ir::DTypeRule::choose) return operands.at(i);
    return i == 0 ? condition : operands.at(i - 1);
  };
  switch (row.arity) {
    case 1:
      return detail::pointwise(row.name, {at(0)});
    case 2:
      return detail::pointwise(row.name, {at(0), at(1)});
    default:
      return detail::pointwise(row.name, {at(0), at(1), at(2)});
  }
}

/// An operand of one of three kinds, which the scalar `domain` chooses: 0 of both signs and with
/// integers that wrap, 1 positive, 2 whole numbers with zeros and with operands that are equal. It
/// is made of an input and a state, which are called "g" and "s" with `suffix`.
[[nodiscard]] inline Value operand_of_domain(Program& program, const std::string& suffix,
                                             DType dtype, const Shape& shape,
                                             const Layout& layout) {
  const Value both_signs = program.input("g" + suffix, dtype, shape, layout);
  if (dtype == DType::boolean) return both_signs;
  const Value positive = program.state("s" + suffix, dtype, shape, layout);
  const ir::ValueId known = ir::graph_of(program)->find("domain");
  const Value domain =
      known >= 0 ? ir::value_of(ir::graph_of(program), known) : program.scalar("domain");
  const Value scaled = (is_float(dtype) ? 4 : 40) * both_signs;
  const Value whole = is_float(dtype) ? cast(cast(scaled, i32), dtype) : both_signs;
  return select(equal(domain, 0), scaled, select(equal(domain, 1), positive, whole));
}

/// Whether the backend has what kernels with `knobs` need on `ranks` ranks: GPUs have a multicast
/// pointer only where each rank has one of its own.
[[nodiscard]] inline bool runs_here(const Knobs& knobs, int ranks) {
  if (config().backend == "host" || ranks == 1 || !sched::uses_multicast(knobs)) return true;
  const std::vector<jit::GpuFacts> gpus = jit::driver_facts().gpus;
  return std::ssize(gpus) >= ranks && gpus.front().multicasts;
}

/// One rank's part of `run_checks`: what was asked, and what was found.
struct Checked {
  Sizes sizes;
  cli::CheckOptions options;
  cli::CheckResult result;
};

/// Compiles and checks `program` under `schedule` for each of `cases`, on `ranks` threads of one
/// world.
inline void run_checks(const Program& program, const Schedule& schedule, int ranks,
                       std::vector<Checked>& cases) {
  World::local(ranks, [&](World& world) {
    for (Checked& checked : cases) {
      const cli::CheckResult mine =
          cli::run_check(program, schedule, world, checked.sizes, checked.options);
      if (world.rank() == 0) checked.result = mine;
    }
  });
}

[[nodiscard]] inline std::string to_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, extent] : sizes)
    text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(extent);
  return text;
}

/// Requires every case to equal the reference, and ranks that must hold the same to hold the same
/// bytes.
inline void require_all_conform(const Program& program, const Schedule& schedule, int ranks,
                                std::vector<Checked> cases) {
  INFO("program " << program.name() << " under schedule " << schedule.name() << " on " << ranks
                  << " ranks");
  REQUIRE_NOTHROW(run_checks(program, schedule, ranks, cases));
  for (const Checked& checked : cases) {
    if (checked.result.passed) continue;
    UNSCOPED_INFO("sizes: " << to_text(checked.sizes));
    UNSCOPED_INFO("program: " << program.json());
    UNSCOPED_INFO("schedule: " << schedule.json());
    FAIL_CHECK(checked.result.failure);
  }
  SUCCEED();
}

/// `require_all_conform`, in runs that draw this check: see sample.h.
inline void require_conforms(const Program& program, const Schedule& schedule, int ranks,
                             std::vector<Checked> cases) {
  if (draw()) require_all_conform(program, schedule, ranks, std::move(cases));
}

/// A check of `iterations` steps with `sizes`, and over `lists` of buffers.
[[nodiscard]] inline Checked check_of(Sizes sizes, int iterations, ParameterLists lists = {}) {
  Checked checked;
  checked.sizes = std::move(sizes);
  checked.options.drive.iterations = iterations;
  checked.options.lists = std::move(lists);
  return checked;
}

/// One for each of `sizes`.
[[nodiscard]] inline std::vector<Checked> cases_with(const std::vector<Sizes>& sizes,
                                                     int iterations) {
  std::vector<Checked> cases;
  for (const Sizes& one : sizes) cases.push_back(check_of(one, iterations));
  return cases;
}

/// Runs `iterations` steps of each of `sizes`.
inline void require_conforms(const Program& program, const Schedule& schedule, int ranks,
                             const std::vector<Sizes>& sizes, int iterations = 1) {
  require_conforms(program, schedule, ranks, cases_with(sizes, iterations));
}

/// The all_reduce called "total" and the update of `state` behind it in one kernel, on slices along
/// `dim`.
[[nodiscard]] inline Schedule fused_update(const std::string& state, int dim = 0,
                                           const Knobs& knobs = {}) {
  const std::string updated = state + ".new";
  return Schedule("fused along " + std::to_string(dim))
      .split("total", "reduce_scatter+all_gather", dim)
      .reorder("total.all_gather", {updated})
      .dead()
      .fuse("fused", "all_reduce", {"total.reduce_scatter", state + ".all_gather", updated}, knobs);
}

/// Makes one kernel of all outputs of `program` called `names`.
[[nodiscard]] inline Schedule one_kernel(const std::string& kernel,
                                         std::vector<std::string> names) {
  Schedule schedule("one kernel");
  schedule.fuse(kernel, "computation", std::move(names));
  return schedule;
}

}  // namespace coconet::test
