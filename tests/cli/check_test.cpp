// The check finds wrong results: it is the judge of all other tests, so that what it accepts must
// be right.
#include "cli/check.h"

#include <catch2/catch.hpp>

#include "coconet/coconet.h"

using namespace coconet;
using Catch::Matchers::Contains;

namespace {

/// x += factor * sum of g over all ranks, on 5 elements of `dtype`; keeps what it added, times
/// `scale`.
Program accumulate(int ranks, double factor, DType dtype = f32, double scale = 1) {
  Program program("accumulate", Mesh({{"world", ranks}}));
  const Value g = program.input("g", dtype, {5}, local);
  const Value x = program.state("x", dtype, {5}, replicated);
  const Value change = factor * all_reduce(g, sum);
  update(x, x + change);
  program.output("change", scale * change);
  return program;
}

/// Compares steps of `ran` with the reference of `meant`, on two ranks.
cli::CheckResult verdict(const Program& ran, const Program& meant,
                         const cli::CheckOptions& options = {}) {
  cli::CheckResult result;
  World::local(2, [&](World& world) {
    Executable step = compile(ran, Schedule(), world);
    cli::drive(step, world, {}, options.drive);
    const cli::CheckResult mine = cli::compare(step, meant, world, {}, options);
    if (world.rank() == 0) result = mine;
  });
  return result;
}

}  // namespace

TEST_CASE("a right result passes on every rank") {
  World::local(2, [&](World& world) {
    const cli::CheckResult result = cli::run_check(accumulate(2, 0.5), Schedule(), world, {});
    if (!result.passed) throw InternalError(result.failure);
    if (!result.bit_identical || result.max_rel_error > result.tolerance)
      throw InternalError("inconsistent");
  });
}

TEST_CASE("a wrong result fails with tensor, element, rank, got and expected") {
  const cli::CheckResult result = verdict(accumulate(2, 0.5), accumulate(2, 0.51));
  CHECK(!result.passed);
  CHECK(result.bit_identical);
  CHECK(result.max_rel_error > 1e-3);
  CHECK_THAT(result.failure, Contains("x[") && Contains("on rank 0 is") && Contains("expected") &&
                                 Contains("elements of 'x' beyond the tolerance"));
}

TEST_CASE("outputs are compared as states are") {
  const cli::CheckResult result = verdict(accumulate(2, 0.5), accumulate(2, 0.5, f32, 2));
  CHECK(!result.passed);
  CHECK_THAT(result.failure, Contains("change["));
}

TEST_CASE("integers must be exact") {
  const cli::CheckResult right = verdict(accumulate(2, 2, i32), accumulate(2, 2, i32));
  INFO(right.failure);
  CHECK(right.passed);
  CHECK(right.max_rel_error == 0);
  CHECK(!verdict(accumulate(2, 2, i32), accumulate(2, 3, i32)).passed);
}

TEST_CASE("the tolerance grows with steps and with the coarsest dtype, and can be given") {
  CHECK(cli::default_tolerance(accumulate(2, 1, f64), 1) <
        cli::default_tolerance(accumulate(2, 1, f32), 1));
  CHECK(cli::default_tolerance(accumulate(2, 1, f32), 1) <
        cli::default_tolerance(accumulate(2, 1, f16), 1));
  CHECK(cli::default_tolerance(accumulate(2, 1, f16), 1) <
        cli::default_tolerance(accumulate(2, 1, bf16), 1));
  CHECK(cli::default_tolerance(accumulate(2, 1), 3) ==
        3 * cli::default_tolerance(accumulate(2, 1), 1));
  CHECK(cli::default_tolerance(accumulate(2, 1, i32), 3) == 0);
  cli::CheckOptions lax;
  lax.tolerance = 0.5;
  CHECK(verdict(accumulate(2, 0.5), accumulate(2, 0.51), lax).passed);
}

TEST_CASE("scalars default to lr = 0.01, t = the step and 0.5") {
  CHECK(cli::default_scalar("lr", 3) == 0.01);
  CHECK(cli::default_scalar("t", 3) == 3);
  CHECK(cli::default_scalar("momentum", 3) == 0.5);
}
