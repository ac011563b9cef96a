// Steps that are replayed as graphs give what the reference gives. COCONET_GRAPH is on here: steps
// of one launch are graphs, too, and one that cannot be made is an error.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <variant>

#include "cli/check.h"
#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "cuda/subjects.h"
#include "ir/access.h"
#include "sample.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr int steps = 80;
/// The first step is launched as it is, and so are those that are timed launch by launch: the next
/// eight and the 64th.
constexpr int replayed = steps - 10;

/// What of a plan a graph holds: its launches and calls in order, and which of them run at once.
std::string kind_of(const sched::Plan& plan) {
  std::string kind;
  for (const sched::PlanStep& step : plan.steps) {
    if (const auto* kernel = std::get_if<sched::KernelStep>(&step)) {
      kind += kernel->kind + (kernel->is_collective ? " between ranks" : "") +
              (kernel->in_place ? " in place" : "") +
              (kernel->reductions().empty() ? "" : " with reductions");
    } else {
      kind += std::holds_alternative<sched::MatmulStep>(step) ? "matmul" : "collective";
    }
    kind += "; ";
  }
  for (const sched::Overlap& overlap : plan.overlaps)
    kind += std::to_string(overlap.first) + "+" + std::to_string(overlap.count) + " at once; ";
  return kind;
}

/// What is wrong with the results of `steps` steps, each on inputs of its own, with 2 ranks.
std::string run(const Subject& subject) {
  std::string wrong;
  World::local(2, [&](World& world) {
    const Program program = subject.build(world.size());
    cli::CheckOptions options;
    options.drive.iterations = steps;
    // Of so many steps the default leaves 16-bit floats any value at all.
    options.tolerance = cli::default_tolerance(program, 1);
    const std::string told =
        cli::run_check(program, subject.load(), world, sizes_of(program, 1003), options).failure;
    if (world.rank() == 0) wrong = told;
  });
  return wrong;
}

}  // namespace

TEST_CASE("eighty steps of every kind of plan that ships, replayed, equal the reference") {
  std::set<std::string> kinds;
  for (const Subject& subject : all_subjects()) {
    const Program scheduled = subject.load().apply(subject.build(2)).back();
    const bool is_new = kinds.insert(kind_of(sched::lower(*ir::graph_of(scheduled)))).second;
    if (!is_new && !draw()) continue;
    // Ranks that share a GPU are one graph; ranks with a GPU each have one each, NCCL's calls
    // included. Kinds take turns where not all runs.
    for (const int gpus : {1, 2}) {
      if (!runs_all() && gpus % 2 != static_cast<int>(kinds.size() % 2)) continue;
      INFO(subject.program->name << "-" << subject.schedule << ", GPUs: " << gpus);
      const Setting devices("STUB_CUDA_DEVICES", std::to_string(gpus).c_str());
      stub_cuda::clear();
      CHECK(run(subject) == "");
      CHECK(stub_cuda::calls("cuGraphLaunch").size() == std::size_t{replayed} * gpus);
    }
  }
}
