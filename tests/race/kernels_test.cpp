// Every kind of kernel that the code generator writes runs without a data race: ThreadSanitizer,
// for which library, test and kernels are built, makes this program end with an error when it saw
// one. Blocks are as many threads as COCONET_HOST_THREADS says, two blocks at once. Programs and
// algorithms come from the library's tables.
#include <array>
#include <set>
#include <string>

#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "jit/conformance/shipped_conformance.h"
#include "jit/platform/platform.h"
#include "precisions.h"
#include "race/programs.h"
#include "sample.h"
#include "sched/knobs.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;

namespace {

std::vector<Subject> shipped_subjects() {
  std::vector<Subject> subjects;
  for (const auto& [shipped, precision] : usual_programs()) {
    const int ranks = 2 * shipped.stages;
    for (const std::string_view schedule : shipped.schedules) {
      subjects.push_back({shipped.build(shipped.mesh(ranks), precision),
                          shipped_schedule(shipped, schedule), ranks});
    }
  }
  return subjects;
}

/// Every kind of kernel as it is without knobs, in place.
std::vector<Subject> default_subjects() {
  std::vector<Subject> subjects;
  for (const KernelSubject& kernel : kernel_subjects) subjects.push_back(subject_of(kernel, 3));
  // Buckets, in one pass and in two.
  for (const char* name : {"adam", "lamb"}) {
    const programs::Shipped& shipped = *programs::find(name);
    subjects.push_back(
        {shipped.scattered(shipped.mesh(2), f32), shipped_schedule(shipped, "fused"), 2});
  }
  return subjects;
}

/// Whole collectives with every algorithm and protocol: on two ranks, which only have each other,
/// and on three.
std::vector<Subject> exchanges() {
  std::vector<Subject> subjects;
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      const Knobs knobs = knobs_of(algorithm.name, protocol.name);
      if (!sched::conflict_in(knobs).empty()) continue;
      for (const int ranks : {2, 3})
        subjects.push_back(subject_of(kernel_subjects[0], ranks, knobs));
    }
  }
  return subjects;
}

void add_kinds(const std::vector<Subject>& subjects, std::set<std::string>& kinds) {
  for (const Subject& subject : subjects) {
    const sched::Plan plan =
        sched::lower(*ir::graph_of(subject.schedule.apply(subject.program).back()));
    for (const sched::PlanStep& step : plan.steps) {
      if (const auto* kernel = std::get_if<sched::KernelStep>(&step)) kinds.insert(kernel->kind);
    }
  }
}

}  // namespace

TEST_CASE("kernels are instrumented, and their blocks are threads") {
  CHECK(config().host_threads > 1);
  const jit::CompileResult compiled =
      jit::host_platform().compiler().compile("extern \"C\" void set(int* to) { *to = 1; }");
  REQUIRE(compiled.ok);
  CHECK(compiled.binary.find("__tsan_write4") != std::string::npos);
}

TEST_CASE("kernels of every kind are looked at") {
  std::set<std::string> looked_at;
  add_kinds(shipped_subjects(), looked_at);
  add_kinds(default_subjects(), looked_at);
  std::set<std::string> kinds = {"reduction"};
  for (const ir::Fusion::Kind kind : ir::fusion_kinds) kinds.emplace(to_string(kind));
  CHECK(looked_at == kinds);
}

TEST_CASE("shipped programs have no race under any of their schedules") {
  // What ranks, threads and vectors do not divide, and what all of them do.
  const Extents extents = {
      {"n", {1237, 1280}}, {"B", {3, 2}}, {"S", {5, 4}}, {"H", {37, 128}}, {"F", {11, 8}}};
  for (const Subject& subject : shipped_subjects())
    if (draw()) require_no_race(subject, sizes_of(subject.program, extents));
}

TEST_CASE("kernels of every kind have no race, in place") {
  const Extents extents = {{"n", {61, 96}}, {"m", {37, 64}}};  // those of race_sizes
  for (const Subject& subject : default_subjects())
    require_no_race(subject, sizes_of(subject.program, extents));
}

TEST_CASE("reductions of short and long rows, and of columns, have no race") {
  require_no_race(softmax_rows(2), reduction_race_sizes);
}

TEST_CASE("collectives have no race with any algorithm and protocol") {
  for (const Subject& subject : exchanges())
    if (draw()) require_no_race(subject, long_race_sizes);
}

TEST_CASE("reductions inside a kernel that sends chunks have no race") {
  for (const sched::KnobChoice& protocol : sched::protocol_choices())
    require_no_race(subject_of("all_reduce with reductions inside, one after the other", 2,
                               knobs_of("ring", protocol.name)));
}

TEST_CASE("the kernel of library collectives has no race") {
  constexpr std::size_t count = 1237;
  const jit::KernelText text = jit::write_library_reduction(f32, Reduction::sum, 2, 2);
  const jit::Compiler& compiler = jit::host_platform().compiler();
  const jit::CompileResult compiled =
      compiler.compile(jit::complete_source(text, compiler.target()));
  REQUIRE(compiled.ok);
  const auto kernel = jit::host_platform().load(compiled.binary, text.entry);
  std::array<std::vector<float>, 2> in{std::vector<float>(count, 1), std::vector<float>(count, 2)};
  std::array<std::vector<float>, 2> out{std::vector<float>(count), std::vector<float>(count)};
  const auto word = [](const std::vector<float>& array) {
    return reinterpret_cast<std::uint64_t>(array.data());
  };
  const std::uint64_t words[] = {word(in[0]), word(in[1]), word(out[0]), word(out[1]), count, 0};
  jit::host_platform().make_queue()->launch(*kernel,
                                            {.blocks = 2, .threads = config().host_threads}, words);
  for (const std::vector<float>& result : out) CHECK(result == std::vector<float>(count, 3));
}
