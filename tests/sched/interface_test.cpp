// What the application reads and writes of a program is the same after every step.
#include "sched/interface.h"

#include <catch2/catch.hpp>

#include "sched/subjects.h"

using namespace coconet;

namespace {

/// An input, a state and an output, with these types.
Program program_with(DType of_input, const Layout& of_state, const Layout& of_output,
                     const std::string& output = "y") {
  Program p("p", two_ranks());
  const Dim n = p.dim("n", 7);
  (void)p.input("x", of_input, {n}, local);
  const Value s = p.state("s", f32, {n}, of_state);
  update(s, 2);
  p.output(output, (p.input("z", f32, {n}, of_output) + 1).named("y"));
  return p;
}

std::string refused(const Program& after, const sched::Step& step) {
  const Program before = program_with(f32, replicated, sliced(0));
  return refusal<ScheduleError>([&] {
    sched::require_same_interface(*ir::graph_of(before), *ir::graph_of(after), {&step, 1});
  });
}

}  // namespace

TEST_CASE("no step changes what the application reads and writes") {
  const sched::Step dead = sched::complete({"dead", {}});
  const sched::Step reorder = sched::complete(
      {"reorder", {{"all_gather", std::string("g")}, {"before", std::vector<std::string>{"y"}}}});
  CHECK_NOTHROW(sched::require_same_interface(
      *ir::graph_of(program_with(f32, replicated, sliced(0))),
      *ir::graph_of(program_with(f32, replicated, sliced(0))), {&dead, 1}));
  CHECK(refused(program_with(f32, replicated, replicated), reorder) ==
        "'reorder all_gather=g before=[y]' would make output 'y' f32[n] replicated, and the "
        "application has it as f32[n] sliced(0); only as_slice changes what the "
        "application sees, the layout of the state that it names");
  CHECK(refused(program_with(f16, replicated, sliced(0)), dead) ==
        "'dead' would make input 'x' f16[n] local, and the application has it as f32[n] local; "
        "only as_slice changes what the application sees, the layout of the state that it names");
  CHECK(refused(program_with(f32, replicated, sliced(0), "other"), dead) ==
        "'dead' would drop output 'y', which the application gives or reads");
}

TEST_CASE("an as_slice changes the layout of its state, and nothing else") {
  const auto as_slice = [](const char* state) {
    return sched::complete({"as_slice", {{"state", std::string(state)}}});
  };
  const Program before = program_with(f32, replicated, sliced(0));
  const Program after = program_with(f32, sliced(0), sliced(0));
  CHECK_NOTHROW(sched::require_same_interface(*ir::graph_of(before), *ir::graph_of(after),
                                              std::vector{as_slice("s")}));
  CHECK(refused(after, as_slice("other")) ==
        "'as_slice state=other' would make state 's' f32[n] sliced(0), and the application has it "
        "as f32[n] replicated; only as_slice changes what the application sees, the "
        "layout of the state that it names");
}
