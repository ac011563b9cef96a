// Building a program: names, dimensions, numbers, outputs and files.
#include "coconet/program.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "ir/access.h"
#include "ir/graph.h"
#include "ir/reference/reference.h"
#include "refusal.h"

using namespace coconet;
using Catch::Contains;
using Catch::StartsWith;

namespace {

struct Small {
  Program p{"p", Mesh({{"world", 2}})};
  Dim n = p.dim("n", 8);
  Value w = p.state("w", f32, {n}, replicated);
  Value g = p.input("g", f32, {n}, local);
};

}  // namespace

TEST_CASE("a program, its tensors, scalars, dimensions and outputs need names") {
  Small s;
  CHECK(refusal([] { Program("", Mesh({{"world", 1}})); }) == "a program needs a name");
  CHECK(refusal([&] { (void)s.p.input("", f32, {s.n}, local); }) ==
        "an input of program 'p' needs a name");
  CHECK(refusal([&] { (void)s.p.state("", f32, {s.n}, local); }) ==
        "a state of program 'p' needs a name");
  CHECK(refusal([&] { (void)s.p.scalar(""); }) == "a scalar of program 'p' needs a name");
  CHECK(refusal([&] { (void)s.p.dim(""); }) == "a symbolic dimension of program 'p' needs a name");
  CHECK(refusal([&] { s.p.output("", s.w * 2); }) == "an output of program 'p' needs a name");
  CHECK(refusal([&] { (void)(s.w * 2).named(""); }) ==
        "'multiply_4' cannot be given an empty name");
}

TEST_CASE("every value has a name of its own") {
  Small s;
  (void)(s.w * 2).named("twice");
  CHECK(refusal([&] { (void)s.p.input("w", f32, {s.n}, local); }) ==
        "in program 'p', 'w' (input): the name is taken; every value needs a name of its own");
  CHECK(refusal([&] { (void)(s.w * 3).named("twice"); }) ==
        "'multiply_5' cannot be named 'twice': program 'p' has a value or an output of that name");
  CHECK((s.w * 4).named("four").named("four").name() == "four");
}

TEST_CASE("values that nobody names get names, which give way to given ones") {
  Small s;
  const Value taken = (s.g + s.g).named("add_3");
  CHECK(ir::id_of(taken) == 2);
  CHECK((s.g + s.w).name() == "add_4");
  CHECK(max(s.w).name() == "max_4");
  CHECK(update(s.w, 0).name() == "w.new");
}

TEST_CASE("an update whose usual name is taken gets another") {
  Small s;
  (void)s.p.scalar("w.new");
  CHECK(update(s.w, s.w).name() == "update_3");
}

TEST_CASE("a dimension is declared once, with a default that can be an extent") {
  Small s;
  CHECK(s.p.dim("m").extent == 0);
  CHECK(refusal([&] { (void)s.p.dim("n"); }) == "program 'p' has a dimension 'n' already");
  CHECK(refusal([&] { (void)s.p.dim("k", -1); }) ==
        "dimension 'k' has default -1; it must be positive, or 0 for none");
}

TEST_CASE("values of two programs do not combine") {
  Small s;
  Small other;
  CHECK(refusal([&] { (void)(s.w + other.g); }) ==
        "add combines 'w' of program 'p' with 'g' of program 'p', which is another Program; both "
        "must belong to one");
  CHECK_THAT(refusal([&] { update(s.w, other.w); }),
             StartsWith("update combines 'w' of program 'p'"));
  CHECK(refusal([&] { s.p.output("y", other.w * 2); }) ==
        "output 'y' of program 'p' is a value of another program");
}

TEST_CASE("constants are folded where the program is written") {
  Small s;
  const int before = ir::graph_of(s.p)->size();
  const Value folded = pow(Value(2), 3) - 1;
  CHECK(ir::graph_of(folded) == nullptr);
  CHECK(folded.constant() == 7);
  CHECK(ir::graph_of(s.p)->size() == before);
  CHECK(refusal([&] { (void)folded.name(); }) ==
        "a constant has no name, dtype, shape or layout of its own");
  CHECK(refusal([&] { (void)Value(1).named("one"); }) ==
        "a constant has no name, dtype, shape or layout of its own");
}

TEST_CASE("equal constants are one value, but the two zeros differ") {
  Small s;
  (void)(s.w * 0.5 + 0.5);
  CHECK(ir::graph_of(s.p)->size() == 5);
  (void)(s.w * 0.0);
  (void)(s.w * -0.0);
  CHECK(ir::graph_of(s.p)->size() == 9);
}

TEST_CASE("arithmetic among scalars, constants and extents is a number") {
  Small s;
  const Value lr = s.p.scalar("lr");
  const Value number = sqrt(1 - pow(0.9, lr));
  CHECK(ir::graph_of(s.p)->at(ir::id_of(number)).weak);
  CHECK(ir::evaluate_weak(*ir::graph_of(s.p), ir::id_of(number), {{"lr", 2}}, {}) ==
        Approx(std::sqrt(0.19)));
  CHECK_FALSE(ir::graph_of(s.p)->at(ir::id_of((number * s.w))).weak);
}

TEST_CASE("a mean divides by the extents that it reduces") {
  Program p("p", Mesh({{"world", 1}}));
  const Dim n = p.dim("n", 3);
  const Value x = p.input("x", f64, {n, 2}, replicated);
  p.output("all", mean(x));
  p.output("rows", mean(x, {1}));
  p.output("columns", mean(x, {0}, true));
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{1, 2, 3, 4, 5, 6}});
  reference.run({});
  CHECK(reference.get("all") == ir::RankData{{3.5}});
  CHECK(reference.get("rows") == ir::RankData{{1.5, 3.5, 5.5}});
  CHECK(reference.get("columns") == ir::RankData{{3, 4}});
}

TEST_CASE("an output is a computed tensor under a name of its own") {
  Small s;
  const Value twice = (s.w * 2).named("twice");
  const Value lr = s.p.scalar("lr");
  s.p.output("twice", twice);
  s.p.output("again", twice);
  REQUIRE(ir::graph_of(s.p)->outputs().size() == 2);
  CHECK(refusal([&] { s.p.output("again", s.w * 3); }) ==
        "output 'again' of program 'p' exists already");
  CHECK(refusal([&] { s.p.output("lr2", lr); }) ==
        "output 'lr2' of program 'p' is a number; outputs are tensors");
  CHECK(refusal([&] { s.p.output("g", twice); }) ==
        "output 'g' of program 'p' has the name of another value; choose one of its own");
  CHECK(refusal([&] { s.p.output("copy", s.w); }) ==
        "output 'copy' of program 'p' is the state 'w', which has a buffer already; read that one");
  CHECK_THAT(refusal([&] { s.p.output("copy", s.g); }),
             Contains("is the input 'g', which has a buffer already"));
  CHECK_THAT(refusal([&] { s.p.output("copy", update(s.w, 0)); }),
             Contains("is the update 'w.new', which has a buffer"));
  CHECK(refusal([&] { s.p.output("one", 1); }) ==
        "a constant has no name, dtype, shape or layout of its own");
}

TEST_CASE("an output's name is no other value's") {
  Small s;
  s.p.output("y", s.w * 2);
  CHECK_THAT(refusal([&] { (void)(s.w * 3).named("y"); }),
             Contains("has a value or an output of that name"));
  CHECK_THAT(refusal([&] { (void)s.p.scalar("y"); }), Contains("the name is taken"));
}

TEST_CASE("a missing value is answered with the nearest name") {
  Small s;
  CHECK(refusal([&] { (void)ir::graph_of(s.p)->require("gg"); }) ==
        "program 'p' has no value 'gg'; did you mean 'g'?");
  CHECK(refusal([&] { (void)ir::graph_of(s.p)->require("momentum"); }) ==
        "program 'p' has no value 'momentum'");
}

TEST_CASE("a program file that cannot be read is refused, and one with an error names the file") {
  const auto missing = std::filesystem::temp_directory_path() / "coconet-no-such-program.json";
  CHECK(refusal([&] { (void)Program::load(missing); }) ==
        "there is no program file '" + missing.string() + "'");
  const std::string schedule =
      std::string(COCONET_SOURCE_DIR) + "/src/sched/shipped/lamb-fused.json";
  CHECK(refusal([&] { (void)Program::load(schedule); }) ==
        schedule + ": program JSON: the key 'coconet_program' is missing");
}

TEST_CASE("the program file of the documentation loads, and its JSON is what it reads back as") {
  const Program p = Program::load(std::string(COCONET_SOURCE_DIR) + "/tests/programs/ridge.json");
  CHECK(p.str() ==
        "program ridge on {world: 2}, n = 4096 (default)\n"
        "  g          f32[n]  local       input\n"
        "  w          f32[n]  replicated  state\n"
        "  lr         number              scalar\n"
        "  avg        f32[n]  replicated  all_reduce(g, mean, world)\n"
        "  decayed    f32[n]  replicated  w * 0.99\n"
        "  scaled     f32[n]  replicated  lr * avg\n"
        "  next       f32[n]  replicated  decayed - scaled\n"
        "  w.new      f32[n]  replicated  update(w, next)\n"
        "  squares    f32[n]  replicated  square(avg)\n"
        "  grad_norm  f32[]   replicated  sum(squares)\n"
        "outputs: grad_norm\n");
  CHECK(Program::parse(p.json()).json() == p.json());
}

TEST_CASE("a value may be declared first, and is refused until it is assigned") {
  Program p("later", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {4}, local);
  Value y;
  CHECK(y.is_empty());
  const std::string empty =
      " was given an empty Value, which was declared and has not been assigned";
  CHECK(refusal([&] { y = x + y; }) == "add" + empty);
  CHECK(refusal([&] { y = all_reduce(y, sum); }) == "all_reduce" + empty);
  CHECK(refusal([&] { (void)y.name(); }) == "an empty Value has no name, dtype, shape or layout");
  y = x * 2;
  CHECK_FALSE(y.is_empty());
  CHECK_FALSE(Value(0).is_empty());
  CHECK(y.shape() == x.shape());
}

TEST_CASE("what a graph knows of its values by index follows every change") {
  Small s;
  ir::Graph& graph = *ir::graph_of(s.p);
  const Value zero = s.w + 0.0, negative = s.w + -0.0;
  CHECK(graph.at(ir::id_of(zero)).operands[1] != graph.at(ir::id_of(negative)).operands[1]);
  CHECK(ir::id_of(s.w + 0.0) > ir::id_of(negative));
  CHECK(graph.find_constant(0.0) == graph.at(ir::id_of(zero)).operands[1]);

  const ir::ValueId size = graph.size();
  const Value dropped = update(s.w, all_reduce(s.g, sum) * 7.5).named("dropped");
  CHECK(graph.update_of(ir::id_of(s.w)) == ir::id_of(dropped));
  CHECK(graph.users()[ir::id_of(s.g)].size() == 1);
  graph.drop_from(size);
  CHECK(graph.find("dropped") == -1);
  CHECK(graph.find_constant(7.5) == -1);
  CHECK(graph.update_of(ir::id_of(s.w)) == -1);
  CHECK(graph.users()[ir::id_of(s.g)].empty());

  const Value twice = (s.w * 2).named("twice").named("double");
  CHECK(graph.find("twice") == -1);
  CHECK(graph.find("double") == ir::id_of(twice));
  CHECK(graph.name_free("twice"));
  s.p.output("out", twice);
  CHECK(graph.is_output(ir::id_of(twice)));
  CHECK_FALSE(graph.name_free("out"));
}
