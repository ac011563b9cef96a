// Random programs under random legal schedules equal the reference: bit for bit where arithmetic is
// exact, whatever the order of additions.
//
// A case is two lists of numbers, the genes: from one the mesh, the sizes and the program are read,
// from the other the schedule. All cases are written first and their kernels compiled together;
// those that rapidcheck shrinks after a failure are compiled one by one.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "ir/access.h"
#include "ir/graph.h"
#include "ir/random_loss.h"
#include "jit/conformance/conformance.h"
#include "jit/conformance/random_program.h"
#include "jit/conformance/random_schedule.h"
#include "jit/kernels/compile_ahead.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// Fewer where kernels are compiled one by one, or have many threads.
int number_of_cases() {
  return static_cast<int>(
      share_of(config().backend == "host" && config().host_threads == 1 ? 1000 : 150));
}
/// Cases that a failure is shrunk by at most, each of which compiles its kernels.
constexpr int most_shrinks = 300;

using GenePair = std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>;

/// Lists of `least` to `most` numbers, all lengths and numbers alike likely from the first case on.
rc::Gen<std::vector<std::uint32_t>> random_genes(std::size_t least, std::size_t most) {
  return rc::gen::mapcat(rc::gen::inRange(least, most + 1), [](std::size_t length) {
    return rc::gen::container<std::vector<std::uint32_t>>(length,
                                                          rc::gen::inRange<std::uint32_t>(0, 5040));
  });
}

struct Case {
  RandomProgram random;
  Schedule schedule;
};

/// A loss with its gradients, and a step along them.
RandomProgram write_training_step(Genes& genes) {
  RandomLoss made = LossAuthor(genes, false).write();
  try {
    const std::vector<Value> gradients = coconet::gradients(made.loss, made.leaves);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      // Beside 1, as what cancels leaves the last bits of nothing.
      made.program.output("beside " + gradients[i].name(), gradients[i] + 1);
      const Value& leaf = made.leaves[i];
      if (ir::graph_of(leaf)->at(ir::id_of(leaf)).op == ir::Op::state)
        update(leaf, leaf - 0.1 * gradients[i]);
    }
  } catch (const ProgramError&) {
  }
  made.program.output("the_loss", made.loss);
  return {made.program, made.sizes, false, false};
}

Case case_of(const GenePair& genes) {
  Genes of_program(genes.first), of_schedule(genes.second);
  RandomProgram random =
      of_program.one_in(4) ? write_training_step(of_program) : write_random_program(of_program);
  Schedule schedule = random_schedule(random.program, of_schedule, random.in_rank_order);
  return {std::move(random), std::move(schedule)};
}

/// What is wrong with the case; empty when it holds.
std::string fault_of(const Case& made) {
  // Of doubles, most of which later ops may cancel.
  constexpr double tolerance = 1e-6;
  std::vector<Checked> checks = {check_of(made.random.sizes, 2)};
  checks[0].options.tolerance = made.random.exact ? 0 : tolerance;
  try {
    run_checks(made.random.program, made.schedule, made.random.program.mesh().size(), checks);
    return checks[0].result.failure;
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string shown(const Case& made, const std::string& fault) {
  return fault + "\n" + to_text(made.random.sizes) + "\nprogram: " + made.random.program.json() +
         "\nschedule: " + made.schedule.json();
}

/// The smallest case on the way from `failing` that fails, too, and what is wrong with it.
std::string shrunk(rc::Shrinkable<GenePair> failing, std::string fault) {
  int shrinks = 0;
  for (bool smaller = true; smaller;) {
    smaller = false;
    auto candidates = failing.shrinks();
    for (auto next = candidates.next(); next && shrinks < most_shrinks; next = candidates.next()) {
      ++shrinks;
      const std::string other = fault_of(case_of(next->value()));
      if (other.empty()) continue;
      failing = *next;
      fault = other;
      smaller = true;
      break;
    }
  }
  return shown(case_of(failing.value()), fault);
}

/// What the cases were, to see that they are worth something.
struct Tally {
  int scheduled = 0, with_collectives_in_kernels = 0, exact = 0, two_axes = 0;
  std::size_t steps = 0;

  void count(const Case& made) {
    scheduled += made.schedule.size() > 0 ? 1 : 0;
    steps += made.schedule.size();
    exact += made.random.exact ? 1 : 0;
    two_axes += made.random.program.mesh().axes().size() > 1 ? 1 : 0;
    const std::vector<Program> programs = made.schedule.apply(made.random.program);
    bool collective = false;
    for (const ir::Fusion& fusion : ir::graph_of(programs.back())->fusions())
      collective = collective || fusion.kind != ir::Fusion::Kind::computation;
    with_collectives_in_kernels += collective ? 1 : 0;
  }
};

}  // namespace

TEST_CASE("random programs under random legal schedules equal the reference") {
  const int cases = number_of_cases();
  const std::uint64_t seed = test::seed();
  const auto gen = rc::gen::pair(random_genes(20, 120), random_genes(0, 120));
  rc::Random random(seed);
  std::vector<rc::Shrinkable<GenePair>> drawn;
  std::vector<Case> made;
  CompileAhead kernels;
  Tally tally;
  for (int i = 0; i < cases; ++i) {
    drawn.push_back(gen(random.split(), rc::kNominalSize));
    made.push_back(case_of(drawn.back().value()));
    kernels.add(made.back().random.program, made.back().schedule);
    tally.count(made.back());
  }
  kernels.compile();
  for (int i = 0; i < cases; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string fault = fault_of(made[at]);
    if (fault.empty()) continue;
    FAIL_CHECK("case " << i << " of TESTS_SEED=" << seed << ": " << shrunk(drawn[at], fault));
    break;
  }
  std::cout << cases << " programs, " << tally.scheduled << " of them scheduled, by " << tally.steps
            << " steps, " << tally.with_collectives_in_kernels << " with collectives in kernels, "
            << tally.exact << " exact, " << tally.two_axes << " on meshes of two axes; "
            << kernels.size() << " different kernels\n";
  CHECK(tally.with_collectives_in_kernels * 10 >= cases);
}
