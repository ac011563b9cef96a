// Requires rows of pointwise ops, those of the table or of an application, to equal the reference
// on every dtype that their rules take, and to refuse the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jit/conformance/conformance.h"

namespace coconet::test {

struct RowsProgram {
  Program program;
  std::vector<std::string> outputs;
};

[[nodiscard]] inline RowsProgram program_of_rows(std::span<const ir::PointwiseRow* const> rows,
                                                 DType dtype, int ranks) {
  RowsProgram made{Program("pointwise", Mesh({{"world", ranks}})), {}};
  const Dim n = made.program.dim("n");
  const std::vector<Value> operands = {operand_of_domain(made.program, "1", dtype, {n}, local),
                                       operand_of_domain(made.program, "2", dtype, {n}, local),
                                       operand_of_domain(made.program, "3", dtype, {n}, local)};
  const Value condition = made.program.input("condition", boolean, {n}, local);
  for (const ir::PointwiseRow* row : rows) {
    const std::string name = "r_" + std::string(row->name);
    made.program.output(name, apply_row(*row, condition, operands).named(name));
    made.outputs.push_back(name);
  }
  return made;
}

/// In kernels of a few rows, on 2 ranks.
inline void check_rows(std::span<const ir::PointwiseRow* const> all, DType dtype) {
  /// Few enough to keep their results in a GPU's registers.
  constexpr std::size_t rows_in_a_kernel = 6;
  std::vector<const ir::PointwiseRow*> accepted;
  for (const ir::PointwiseRow* row : all) {
    INFO(row->name << " of " << to_string(dtype));
    const ir::PointwiseRow* const one[] = {row};
    if (accepts(row->rule, dtype)) {
      accepted.push_back(row);
    } else {
      CHECK_THROWS_AS(program_of_rows(one, dtype, 1), ProgramError);
    }
  }
  for (std::size_t first = 0; first < accepted.size(); first += rows_in_a_kernel) {
    const auto rows =
        std::span(accepted).subspan(first, std::min(rows_in_a_kernel, accepted.size() - first));
    const RowsProgram made = program_of_rows(rows, dtype, 2);
    std::vector<Checked> cases;
    for (int domain = 0; domain < (dtype == DType::boolean ? 1 : 3); ++domain) {
      for (const std::int64_t n : {1, 1003}) {
        cases.push_back(check_of({{"n", n}}, 1));
        cases.back().options.drive.scalars["domain"] = domain;
      }
    }
    const std::string kernel =
        "rows_" + std::to_string(first) + "_" + std::string(to_string(dtype));
    require_conforms(made.program, one_kernel(kernel, made.outputs), 2, std::move(cases));
  }
}

}  // namespace coconet::test
