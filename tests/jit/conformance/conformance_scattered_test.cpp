// Programs over lists of buffers equal the reference, whatever the lengths are and wherever slices
// begin and end.
#include <algorithm>
#include <memory>
#include <optional>

#include "ir/access.h"
#include "jit/bind/lists.h"
#include "jit/conformance/conformance_batch.h"
#include "jit/conformance/shipped_conformance.h"
#include "jit/exchange/kernel_subjects.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// `program` with all its tensors [n] scattered; nothing where one of them cannot be.
std::optional<Program> over_lists(const Program& program) {
  auto graph = std::make_shared<ir::Graph>(*ir::graph_of(program));
  bool any = false;
  for (ir::ValueId id = 0; id < graph->size(); ++id) {
    ir::Node& node = graph->edit(id);
    const bool given = node.op == ir::Op::input || node.op == ir::Op::state;
    const bool whole =
        std::find(node.layout.begin(), node.layout.end(), sliced(0)) == node.layout.end();
    if (!given || !whole || node.shape.size() != 1 || node.shape.front().name != "n") continue;
    node.attributes.scattered = any = true;
  }
  if (!any || !refusal<ProgramError>([&] { ir::verify(*graph); }).starts_with("(")) return {};
  return ir::program_of(std::move(graph));
}

}  // namespace

TEST_CASE("every optimizer over lists of buffers equals the reference under every schedule") {
  ConformanceBatch batch;
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.scattered == nullptr) continue;
    for (const programs::Precision& precision : shipped.precisions) {
      // Other dtypes differ in the kernels' text alone, which needs no further ranks.
      const bool is_usual = precision.master == f32;
      const std::vector<int> counts = is_usual ? ranks_of(shipped) : std::vector{2};
      for (const std::string_view schedule : shipped.schedules) {
        for (const int ranks : counts) {
          batch.add(shipped.scattered(shipped.mesh(ranks), precision),
                    shipped_schedule(shipped, schedule), cases_of(lists, 2));
        }
      }
    }
  }
  batch.require();
}

TEST_CASE("kernels and library collectives of every kind work on lists of buffers") {
  std::size_t programs = 0;
  ConformanceBatch batch;
  for (const KernelSubject& kernel : kernel_subjects) {
    for (const int ranks : {1, 2, 3}) {
      if (ranks < kernel.least_ranks) continue;
      const std::optional<Program> program = over_lists(kernel.program(ranks, f32));
      if (!program) continue;
      ++programs;
      const auto cases = cases_of({{5, 1, 64, 3}, {1, 4097, 2, 300}}, 2);
      batch.add(*program, kernel.schedule({}), cases);
      batch.add(*program, Schedule("none"), cases);
    }
  }
  batch.require();
  CHECK(programs > 10);
}

TEST_CASE("lists so long that stores go past the caches equal the reference") {
  const programs::Shipped& adam = *programs::find("adam");
  for (const int ranks : {2, 3}) {
    require_conforms(adam.scattered(adam.mesh(ranks), f32), shipped_schedule(adam, "fused"), ranks,
                     cases_of({{1000001, 1, 600003}, {1600000}}, 2));
  }
}

TEST_CASE("several blocks, and vectors of any width, share the buckets") {
  const KernelSubject& kernel = kernel_subjects[0];
  const std::optional<Program> program = over_lists(kernel.program(2, f32));
  REQUIRE(program);
  for (const int vector_bytes : {4, 64}) {
    Knobs knobs;
    knobs.channels = 3;
    knobs.vector_bytes = vector_bytes;
    require_conforms(*program, kernel.schedule(knobs), 2, cases_of(lists, 2));
  }
}

TEST_CASE("operands beside the buffers are broadcast, and masks are those of the whole") {
  for (const int ranks : {1, 3}) {
    Program p("beside", Mesh({{"world", ranks}}));
    const Dim n = p.dim("n");
    const Value w = p.scattered_state("w", f32, n, replicated);
    const Value g = p.scattered_input("g", f32, n, local);
    const Value one = p.input("one", f32, {1}, replicated);
    const Value total = all_reduce(g, sum).named("total");
    update(w, dropout(w + total * one, 0.25, 7));
    p.output("largest", max(abs(w * one)).named("largest"));
    p.output("norm", norm(w).named("norm"));
    require_conforms(p, Schedule("none"), ranks, cases_of(lists, 2));
    require_conforms(p, fused_update("w"), ranks, cases_of(lists, 2));
  }
}
