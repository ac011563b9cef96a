// What mailboxes carry between ranks, with every algorithm and protocol that uses them: any dtype,
// from and to any place.
#include "ir/access.h"
#include "jit/conformance/conformance.h"
#include "jit/exchange/kernel_subjects.h"
#include "jit/exchange/slices.h"
#include "sched/knobs.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// Calls `body` with the knobs of each combination that sends chunks through mailboxes.
template <class Body>
void for_each_mailbox(const Body& body) {
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      const Knobs knobs = knobs_of(algorithm.name, protocol.name);
      if (sched::works_in_place(knobs)) continue;
      INFO(algorithm.name << ", " << protocol.name);
      body(knobs);
    }
  }
}

}  // namespace

TEST_CASE("what is not reduced may be of any dtype, bool too") {
  constexpr int ranks = 3;
  Program program("flags", Mesh({{"world", ranks}}));
  const Value x = program.input("x", boolean, {program.dim("n")}, sliced(0));
  program.output("all", all_gather(logical_not(x).named("turned")).named("all"));
  for_each_mailbox([&](const Knobs& knobs) {
    require_conforms(program,
                     Schedule("flags").fuse("flags", "all_gather", {"turned", "all"}, knobs), ranks,
                     {Sizes{{"n", 1}}, Sizes{{"n", 5}}, Sizes{{"n", 1030}}, Sizes{{"n", 20011}}});
  });
}

TEST_CASE("a chunk may end anywhere in a line") {
  std::vector<Sizes> sizes;
  for (const std::int64_t slice :
       {29, 30, 31, 32, 33, 35, 57, 59, 60, 61, 90, 91, 119, 120, 121, 2049})
    sizes.push_back({{"n", 2 * slice}});
  for (const DType dtype : {i8, f16, f32, i64}) {
    Program program("ends", Mesh({{"world", 2}}));
    program.output(
        "y", all_reduce(program.state("x", dtype, {program.dim("n")}, local), sum).named("sum"));
    Knobs knobs = knobs_of("ring", "ll128");
    knobs.chunk_bytes = 1024;
    require_conforms(program, Schedule("ends").fuse("ends", "all_reduce", {"sum"}, knobs), 2,
                     sizes);
  }
}

TEST_CASE("long chunks, which are stored past the caches, arrive whole") {
  for (const char* const algorithm : {"ring", "tree"}) {
    Knobs knobs = knobs_of(algorithm, "simple");
    knobs.chunk_bytes = 8 << 10;
    for (const DType dtype : {f16, f64}) {
      INFO(algorithm << ", " << to_string(dtype));
      Program program("long", Mesh({{"world", 2}}));
      program.output(
          "y", all_reduce(program.state("x", dtype, {program.dim("n")}, local), sum).named("sum"));
      require_conforms(program, Schedule("long").fuse("long", "all_reduce", {"sum"}, knobs), 2,
                       {Sizes{{"n", 40000}}, Sizes{{"n", 100003}}});
    }
  }
}

TEST_CASE("mailboxes take tensors that lie at any element of the application's memory") {
  constexpr std::int64_t n = 1031;
  const auto run = [](World& world, const Knobs& knobs) {
    Program program("shifted", Mesh::over(world));
    const Value g = program.input("g", f16, {n}, local);
    program.output("total", all_reduce(g, sum).named("sum"));
    Executable step =
        compile(program, Schedule("shifted").fuse("shifted", "all_reduce", {"sum"}, knobs), world);
    // The first element is at no multiple of a word, a vector or a line.
    std::vector<std::uint16_t> in(n + 1, 0x3c00), out(n + 1);  // ones
    step.bind("g", f16, in.data() + 1, n);
    step.bind("total", f16, out.data() + 1, n);
    step.run();
    const std::vector<std::uint16_t> threes(n, 0x4200);
    if (!std::equal(threes.begin(), threes.end(), out.begin() + 1) || out[0] != 0)
      throw InternalError("rank " + std::to_string(world.rank()) + " got another sum");
  };
  for_each_mailbox([&](const Knobs& knobs) {
    REQUIRE_NOTHROW(World::local(3, [&](World& world) { run(world, knobs); }));
  });
}

TEST_CASE("without knobs the mailboxes of a kernel fit their budget, else they are as asked") {
  constexpr std::int64_t mib = 1 << 20;
  for (const int ranks : {2, 8}) {
    for_each_mailbox([&](Knobs knobs) {
      knobs.chunk_bytes = 0;
      const auto sized = [&](int channels, int chunk_bytes, const auto& check) {
        knobs.channels = channels;
        knobs.chunk_bytes = chunk_bytes;
        const auto scheduled =
            kernel_subjects[1].schedule(knobs).apply(kernel_subjects[1].program(ranks, f32));
        const sched::Plan plan = sched::lower(*ir::graph_of(scheduled.back()));
        check(plan, std::get<sched::KernelStep>(plan.steps.front()));
      };
      sized(0, 0, [&](const sched::Plan& plan, const sched::KernelStep& step) {
        const int most = jit::blocks_in_budget(plan, step, ranks);
        CHECK(most >= 16);
        for (const int blocks : {1, most / 2, most})
          CHECK(jit::mailbox_bytes(plan, step, ranks, blocks) <= 32 * mib);
        CHECK(jit::mailbox_bytes(plan, step, ranks, most) > 24 * mib);
        CHECK(jit::chunk_elements(plan, step, ranks, 1) == 32768 / 4);
        CHECK(jit::chunk_elements(plan, step, ranks, most) == 8192 / 4);
      });
      sized(1024, 1 << 16, [&](const sched::Plan& plan, const sched::KernelStep& step) {
        CHECK(jit::chunk_elements(plan, step, ranks, 1024) == (1 << 16) / 4);
        CHECK(jit::mailbox_bytes(plan, step, ranks, 1024) > 512 * mib);
      });
    });
  }
}
