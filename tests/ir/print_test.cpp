// The printer: programs as people read them.
#include <catch2/catch.hpp>
#include <limits>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/graph.h"

using namespace coconet;

namespace {

std::string line_of(const Program& program, const std::string& name) {
  const std::string text = program.str();
  const auto begin = text.find("\n  " + name + " ");
  if (begin == std::string::npos) return "(no line for " + name + ")";
  return text.substr(begin + 3, text.find('\n', begin + 1) - begin - 3);
}

}  // namespace

TEST_CASE("a program prints as one aligned line per value, with numbers inside their readers") {
  Program p("adam", Mesh({{"world", 2}}));
  const Dim n = p.dim("n", 1048576);
  const Value g = p.input("g", f32, {n}, local);
  const Value w = p.state("w", f32, {n}, replicated);
  const Value m = p.state("m", f32, {n}, replicated);
  const Value lr = p.scalar("lr");
  const Value t = p.scalar("t");
  const Value avg = all_reduce(g, mean).named("avg");
  const Value kept = 0.9 * m;
  const Value m1 = update(m, (kept + 0.1f * avg).named("blend"));
  update(w, (w - (lr * (m1 / (1 - pow(0.9, t))).named("scaled")).named("delta")).named("next"));
  CHECK(p.str() ==
        "program adam on {world: 2}, n = 1048576 (default)\n"
        "  g           f32[n]  local       input\n"
        "  w           f32[n]  replicated  state\n"
        "  m           f32[n]  replicated  state\n"
        "  lr          number              scalar\n"
        "  t           number              scalar\n"
        "  avg         f32[n]  replicated  all_reduce(g, mean, world)\n"
        "  multiply_7  f32[n]  replicated  0.9 * m\n"
        "  multiply_9  f32[n]  replicated  0.1f * avg\n"
        "  blend       f32[n]  replicated  multiply_7 + multiply_9\n"
        "  m.new       f32[n]  replicated  update(m, blend)\n"
        "  scaled      f32[n]  replicated  m.new / (1 - pow(0.9, t))\n"
        "  delta       f32[n]  replicated  lr * scaled\n"
        "  next        f32[n]  replicated  w - delta\n"
        "  w.new       f32[n]  replicated  update(w, next)\n");
}

TEST_CASE("dropout prints with its offset, probability and seed") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {4}, replicated);
  (void)dropout(x, 0.1, 42, p.scalar("t")).named("d");
  (void)dropout(x, 0.5f, 18446744073709551615u).named("e");
  CHECK(line_of(p, "d") == "d  f32[4]  replicated  dropout(x, t, probability 0.1, seed 42)");
  CHECK(line_of(p, "e") ==
        "e  f32[4]  replicated  dropout(x, 0, probability 0.5, seed 18446744073709551615)");
}

TEST_CASE("a stochastic cast prints with its dtype and seed") {
  Program p("p", Mesh({{"world", 2}}));
  (void)stochastic_cast(p.input("x", f32, {4}, replicated), bf16, 3, p.scalar("t")).named("c");
  CHECK(line_of(p, "c") == "c  bf16[4]  replicated  stochastic_cast(x, t, bf16, seed 3)");
}

TEST_CASE("layouts name the axes when there are several") {
  Program p("grid", Mesh({{"pp", 2}, {"tp", 4}}));
  const Dim n = p.dim("n");
  const Value x = p.input("x", f16, {n, 64}, Layout::on({{"tp", sliced(1)}}));
  (void)all_gather(x, "tp").named("whole");
  CHECK(p.str() ==
        "program grid on {pp: 2, tp: 4}, n (no default)\n"
        "  x      f16[n, 64]  {pp: replicated, tp: sliced(1)}   input\n"
        "  whole  f16[n, 64]  {pp: replicated, tp: replicated}  all_gather(x, tp)\n");
  CHECK(ir::describe(*ir::graph_of(p), 0) == "x: f16[n, 64] {pp: replicated, tp: sliced(1)}");
}

TEST_CASE("every op prints what distinguishes it") {
  Program p("ops", Mesh({{"world", 2}}));
  const Dim n = p.dim("n", 8);
  const Value x = p.input("x", f32, {n, 4}, local);
  const Value s = p.scalar("s");
  (void)reduce_scatter(x, sum, 1).named("rs");
  (void)reduce(x, max, 1).named("red");
  (void)broadcast(x, 1).named("bc");
  (void)send(x, -1).named("sent");
  (void)slice(p.input("y", f32, {n, 4}, replicated), 1).named("block");
  (void)sum(x).named("all");
  (void)max(x, {0}).named("rows");
  (void)min(x, {1}, true).named("kept");
  (void)mean(x, {0}).named("averages");
  (void)cast(x, bf16).named("narrow");
  (void)select(x < s, -x, 0).named("chosen");
  (void)select(x < s, 1, 0, f16).named("mask");
  (void)sqrt(x).named("root");
  (void)(x * (s * s).named("s2")).named("scaled");
  CHECK_THAT(line_of(p, "rs"),
             Catch::EndsWith(" sliced(1)   reduce_scatter(x, sum, dim 1, world)"));
  CHECK_THAT(line_of(p, "red"), Catch::EndsWith("  reduce(x, max, root 1, world)"));
  CHECK_THAT(line_of(p, "bc"), Catch::EndsWith("  broadcast(x, root 1, world)"));
  CHECK_THAT(line_of(p, "sent"), Catch::EndsWith(" local       send(x, offset -1, world)"));
  CHECK_THAT(line_of(p, "block"), Catch::EndsWith(" sliced(1)   slice(y, dim 1, world)"));
  CHECK_THAT(line_of(p, "all"), Catch::Contains(" f32[] ") && Catch::EndsWith("  sum(x)"));
  CHECK_THAT(line_of(p, "rows"), Catch::EndsWith("  max(x, {0})"));
  CHECK_THAT(line_of(p, "kept"),
             Catch::Contains(" f32[n, 1] ") && Catch::EndsWith("  min(x, {1}, keep_dims)"));
  CHECK_THAT(line_of(p, "averages"), Catch::Contains("extent(n)"));
  CHECK_THAT(line_of(p, "narrow"),
             Catch::Contains(" bf16[n, 4] ") && Catch::EndsWith("  cast(x, bf16)"));
  CHECK_THAT(line_of(p, "chosen"), Catch::Contains("  select(less_") && Catch::EndsWith(", 0)"));
  CHECK_THAT(line_of(p, "mask"), Catch::Contains(" f16[n, 4] ") && Catch::EndsWith(", 1, 0, f16)"));
  CHECK_THAT(line_of(p, "root"), Catch::EndsWith("  sqrt(x)"));
  CHECK_THAT(line_of(p, "s2"), Catch::Contains(" number ") && Catch::EndsWith("  s * s"));
  CHECK_THAT(line_of(p, "scaled"), Catch::EndsWith("  x * s2"));
}

TEST_CASE("numbers print as the shortest text that reads back") {
  Program p("numbers", Mesh({{"world", 1}}));
  const Value x = p.input("x", f64, {1}, replicated);
  const auto check = [&](double number, const std::string& text) {
    const std::string name = "v" + text;
    (void)(x * number).named(name);
    CHECK_THAT(line_of(p, name), Catch::EndsWith(" x * " + text));
  };
  check(1, "1");
  check(-3, "-3");
  check(0.5, "0.5");
  check(1e-8, "1e-8");
  check(1e-8f, "1e-8f");
  check(0.9f, "0.9f");
  check(0.1, "0.1");
  check(1048576, "1048576");
  check(2.5e100, "2.5e100");
  check(std::numeric_limits<double>::infinity(), "inf");
}

TEST_CASE(
    "arithmetic among numbers that many values read has a line, so that text cannot explode") {
  Program p("deep", Mesh({{"world", 1}}));
  Value power = p.scalar("s");
  for (int i = 0; i < 40; ++i) power = power * power;
  update(p.state("x", f32, {1}, replicated), power);
  CHECK(p.str().size() < 4000);
}

TEST_CASE("outputs and kernels follow the values, wrapped") {
  Program p("out", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {4}, local);
  const Value y = (x + 1).named("y");
  p.output("y", y);
  p.output("total", sum(y));
  ir::Graph& graph = *ir::graph_of(p);
  ir::Fusion fusion;
  fusion.name = "fused";
  fusion.members = {graph.require("y")};
  fusion.knobs.algorithm = "direct";
  fusion.knobs.protocol = "simple";
  fusion.knobs.channels = 4;
  graph.add_fusion(fusion);
  CHECK_THAT(p.str(),
             Catch::EndsWith("\noutputs: y, total = sum_3\n"
                             "kernel fused (computation: direct, simple, 4 channels): y\n"));

  Value z = y;
  for (int i = 0; i < 12; ++i) {
    z = (z + 1).named("a_rather_long_name_" + std::to_string(i));
    fusion.members.push_back(ir::id_of(z));
    graph.set_fusions({fusion});
  }
  const std::string text = p.str();
  const auto kernel = text.find("kernel fused");
  CHECK_THAT(text.substr(kernel), Catch::Contains(",\n    a_rather_long_name_"));
  std::size_t begin = kernel;
  while (begin < text.size()) {
    const auto end = text.find('\n', begin);
    CHECK(end - begin <= 100);
    begin = end + 1;
  }
}

TEST_CASE("a tensor over a list of buffers prints as scattered") {
  Program p("scattered", Mesh({{"world", 2}}));
  const Dim n = p.dim("n", 100);
  p.scattered_input("g", f16, n, local);
  p.scattered_state("w", f16, n, replicated);
  CHECK(line_of(p, "g") == "g  f16[n]  local       scattered input");
  CHECK(line_of(p, "w") == "w  f16[n]  replicated  scattered state");
}

TEST_CASE("a long chain of numbers is divided among lines") {
  Program p("p", Mesh({{"world", 1}}));
  Value number = p.scalar("lr");
  for (int i = 0; i < 3000; ++i) number = sqrt(number);
  p.output("product", p.input("x", f32, {8}, replicated) * number);
  const std::string printed = p.str();
  for (std::string_view text = printed; !text.empty();) {
    const std::size_t end = text.find('\n');
    CHECK(end < 1000);
    text.remove_prefix(end + 1);
  }
}
