// Program JSON: exact round trips, what a person may leave out, and an error with a pointer for
// whatever is wrong.
#include <catch2/catch.hpp>
#include <limits>

#include "coconet/error.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "refusal.h"

using namespace coconet;

namespace {

void check_round_trip(const Program& program) {
  const std::string json = program.json();
  INFO(json);
  const Program read = Program::parse(json);
  CHECK(read.json() == json);
  CHECK(read.str() == program.str());
  ir::verify(*ir::graph_of(read));
  for (const ir::Node& node : ir::graph_of(program)->nodes()) {
    if (node.op == ir::Op::constant && !node.user_named)
      continue;  // these are numbers among operands
    const ir::Node& again = ir::graph_of(read)->at(ir::graph_of(read)->require(node.name));
    CHECK(again.user_named == node.user_named);
    CHECK(again.origin == node.origin);
    CHECK(again.attributes == node.attributes);
  }
}

std::string error_of(const std::string& json) {
  return refusal<ProgramError>([&] { (void)Program::parse(json); });
}

// A right program whose `values` are given, and with `tail` after them.
std::string with_values(const std::string& values, const std::string& tail = "") {
  return R"({"coconet_program": 1, "name": "p", "mesh": [{"name": "world", "size": 2}],
             "dims": [{"name": "n", "default": 8}],
             "values": [
    {"name": "g", "op": "input", "dtype": "f32", "shape": ["n"], "layout": "local"},
    {"name": "w", "op": "state", "dtype": "f32", "shape": ["n"], "layout": "replicated"})" +
         (values.empty() ? "" : ",\n" + values) + "]" + tail + "}";
}

Program scattered() {
  Program p("scattered", Mesh({{"world", 2}}));
  const Dim n = p.dim("n", 100);
  const Value g = p.scattered_input("g", f16, n, local);
  const Value w = p.scattered_state("w", f16, n, replicated);
  update(w, w - all_reduce(g, mean));
  return p;
}

Program adam() {
  Program p("adam", Mesh({{"world", 4}}));
  const Dim n = p.dim("n", 1 << 20);
  const Value g = p.input("g", f32, {n}, local);
  const Value w = p.state("w", f32, {n}, replicated);
  const Value m = p.state("m", f32, {n}, replicated);
  const Value v = p.state("v", f32, {n}, replicated);
  const Value lr = p.scalar("lr");
  const Value t = p.scalar("t");
  const Value avg = all_reduce(g, mean).named("avg");
  const Value m1 = update(m, 0.9f * m + 0.1f * avg);
  const Value v1 = update(v, 0.999 * v + 0.001 * avg * avg);
  update(w, w - lr * (m1 / (1 - pow(0.9f, t))) / (sqrt(v1 / (1 - pow(0.999, t))) + 1e-8f));
  return p;
}

}  // namespace

TEST_CASE("an optimizer survives a round trip byte for byte") {
  check_round_trip(adam());
  check_round_trip(scattered());
}

TEST_CASE("every op, several mesh axes and every dtype survive a round trip") {
  Program p("all \"kinds\"", Mesh({{"pp", 2}, {"tp", 3}}));
  const Dim n = p.dim("n");
  const Value x = p.input("x", f32, {n, 6}, Layout::on({{"tp", local}}));
  const Value s = p.scalar("s");
  (void)reduce_scatter(x, mean, 1, "tp").named("rs");
  (void)all_gather(p.input("y", f64, {6, n}, Layout::on({{"pp", sliced(1)}, {"tp", sliced(0)}})),
                   "pp");
  (void)all_to_all(p.input("z", f64, {6, n}, Layout::on({{"tp", sliced(0)}})), 1, "tp");
  (void)reduce(x, prod, 2, "tp");
  (void)broadcast(x, 1, "tp");
  (void)send(x, -2, "tp");
  (void)all_reduce(x, min, "tp");
  (void)slice(x, 1, "pp");
  (void)max(x, {-1}, true);
  (void)norm(x);
  (void)mean(x);
  (void)select(x < s, exp(x) * 2, -x);
  (void)select(x < s, 1.0, 0.5, bf16);
  (void)select(x < s, x, 0, f32);
  (void)dropout(x, 0.1, 18446744073709551615u, s);
  (void)dropout(x, 1 - 0x1p-53, 0);
  (void)matmul(x, x, true).named("left");
  (void)matmul(x, x, false, true).named("right");
  (void)(x * std::numeric_limits<double>::infinity());
  (void)(x * -std::numeric_limits<double>::infinity());
  (void)(x + 1e-300 + 0.1 + 1e22 + 123456789012345.0 - 9007199254740993.0);
  for (const DType dtype : all_dtypes)
    (void)cast(x, dtype).named("as_" + std::string(to_string(dtype)));
  p.output("root", sqrt(x).named("sqrt_x"));
  p.output("sqrt_x",
           ir::graph_of(p) ? ir::value_of(ir::graph_of(p), ir::graph_of(p)->require("sqrt_x")) : x);
  check_round_trip(p);
}

TEST_CASE("the smallest exponents and negative zero survive a round trip") {
  Program p("tiny", Mesh({{"world", 1}}));
  const Value x = p.input("x", f64, {1}, replicated);
  (void)(x * 5e-324).named("subnormal");
  (void)(x * -0.0).named("negative_zero");
  (void)(x * 0.1f).named("float");
  check_round_trip(p);
}

TEST_CASE("kernels, knobs, origins and names that a schedule gave survive a round trip") {
  const Program p = adam();
  ir::Graph& graph = *ir::graph_of(p);
  ir::Fusion fusion;
  fusion.name = "fused";
  // A constant as a member cannot be written inside its reader.
  for (ir::ValueId id = graph.require("avg"); id < graph.size(); ++id) fusion.members.push_back(id);
  fusion.knobs = {"direct", "simple", 4, 256, 16};
  graph.edit(graph.require("avg")).origin = "split avg";
  graph.add_fusion(fusion);
  check_round_trip(p);
}

TEST_CASE("a value reads as one line, with constants inside") {
  const std::string json = adam().json();
  CHECK_THAT(json, Catch::StartsWith("{\n"
                                     "  \"coconet_program\": 1,\n"
                                     "  \"name\": \"adam\",\n"
                                     "  \"mesh\": [{\"name\": \"world\", \"size\": 4}],\n"
                                     "  \"dims\": [{\"name\": \"n\", \"default\": 1048576}],\n"
                                     "  \"values\": [\n"
                                     "    {\"name\": \"g\", \"op\": \"input\", \"dtype\": \"f32\", "
                                     "\"shape\": [\"n\"], \"layout\": \"local\"},\n"));
  CHECK_THAT(json,
             Catch::Contains("\n    {\"name\": \"avg\", \"op\": \"all_reduce\", \"operands\": "
                             "[\"g\"], \"reduction\": \"mean\", \"axis\": \"world\"},\n"));
  CHECK_THAT(json, Catch::Contains("\"op\": \"pow\", \"operands\": [0.999, \"t\"]}"));
  CHECK_THAT(json, !Catch::Contains("constant"));
}

TEST_CASE("names, axes, default attributes and outputs may be left out") {
  const Program p = Program::parse(with_values(R"(
      {"name": "avg", "op": "all_reduce", "operands": ["g"], "reduction": "mean"},
      {"name": "total", "op": "reduction", "operands": ["avg"], "reduction": "sum"},
      {"name": "slice", "op": "reduce_scatter", "operands": ["g"], "reduction": "sum"},
      {"name": "from0", "op": "broadcast", "operands": ["g"]},
      {"name": "sent", "op": "send", "operands": ["g"]},
      {"op": "update", "operands": ["w", 0.5]})"));
  CHECK_THAT(p.str(), Catch::Contains("w.new  f32[n]  replicated  update(w, 0.5)"));
  CHECK_THAT(p.str(), Catch::Contains("total  f32[]   replicated  sum(avg)"));
  CHECK_THAT(p.str(),
             Catch::Contains("slice  f32[n]  sliced(0)   reduce_scatter(g, sum, dim 0, world)"));
  CHECK_THAT(p.str(), Catch::Contains("broadcast(g, root 0, world)"));
  CHECK_THAT(p.str(), Catch::Contains("send(g, offset 1, world)"));
}

TEST_CASE("a constant's made-up name gives way to the names in the file") {
  const Program p = Program::parse(with_values(R"(
      {"name": "half", "op": "multiply", "operands": ["w", 0.5]},
      {"name": "constant_2", "op": "add", "operands": ["half", "w"]})"));
  CHECK(ir::graph_of(p)->require("constant_2") == 4);
}

TEST_CASE("equal constants are one, as in a program built in C++") {
  const Program p = Program::parse(with_values(R"(
      {"name": "a", "op": "multiply", "operands": ["w", 0.5]},
      {"name": "b", "op": "multiply", "operands": ["a", 0.5]})"));
  CHECK(ir::graph_of(p)->size() == 5);
}

namespace {

// The mesh of a program file whose axes are `mesh`, on `ranks` ranks; or why there is none.
std::string mesh_of(const std::string& mesh, int ranks) {
  try {
    const std::string json =
        R"({"coconet_program": 1, "name": "p", "values": [], "mesh": [)" + mesh + "]}";
    return (ranks == 0 ? Program::parse(json) : Program::parse(json, ranks)).mesh().str();
  } catch (const ProgramError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("an axis of size \"ranks\" has what the other axes leave of the ranks") {
  const std::string world = R"({"name": "world", "size": "ranks"})";
  CHECK(mesh_of(world, 1) == "{world: 1}");
  CHECK(mesh_of(world, 6) == "{world: 6}");
  const std::string nodes = R"({"name": "node", "size": "ranks"}, {"name": "gpu", "size": 4})";
  CHECK(mesh_of(nodes, 4) == "{node: 1, gpu: 4}");
  CHECK(mesh_of(nodes, 12) == "{node: 3, gpu: 4}");
  const std::string inner = R"({"name": "pp", "size": 2}, {"name": "tp", "size": "ranks"})";
  CHECK(mesh_of(inner, 12) == "{pp: 2, tp: 6}");
  // A mesh of numbers is what it says, on whatever ranks.
  CHECK(mesh_of(R"({"name": "world", "size": 3})", 2) == "{world: 3}");
}

TEST_CASE("what an axis of size \"ranks\" cannot have is an error that names it and the numbers") {
  CHECK(mesh_of(R"({"name": "world", "size": "ranks"})", 0) ==
        "program JSON at /mesh/0/size: the size of axis 'world' depends on the number of ranks; "
        "pass it to Program::load or Program::parse, or write a number here");
  CHECK(mesh_of(R"({"name": "world", "size": "ranks"})", -1) ==
        "program JSON at /mesh/0/size: there cannot be -1 ranks; pass 1 or more");
  CHECK(mesh_of(R"({"name": "pp", "size": 2}, {"name": "gpu", "size": "ranks"},
                   {"name": "tp", "size": 2})",
                6) ==
        "program JSON at /mesh/1/size: axis 'gpu' cannot have what is left of 6 ranks, which 4 "
        "does not divide; the other axes are {pp: 2, tp: 2}, so take a multiple of 4");
  const std::string huge = R"({"name": "a", "size": 2147483647}, {"name": "b", "size": 2147483647},
                              {"name": "c", "size": 2147483647}, {"name": "d", "size": "ranks"})";
  CHECK_THAT(mesh_of(huge, 2), Catch::Contains("/mesh/3/size: axis 'd' cannot have what is left"));
  CHECK(mesh_of(R"({"name": "a", "size": "ranks"}, {"name": "b", "size": "ranks"})", 4) ==
        "program JSON at /mesh/1/size: axis 'a' has what is left of the ranks already; give all "
        "axes but one a number");
  CHECK(mesh_of(R"({"name": "a", "size": "rnks"})", 4) ==
        "program JSON at /mesh/0/size: is a string; it must be a whole number of at least 1, or "
        "\"ranks\" for those that are left");
}

TEST_CASE("syntax errors have a line and a column") {
  CHECK_THAT(error_of("{\n  \"coconet_program\": 1,\n  \"name\" \"p\"}"),
             Catch::StartsWith(
                 "program JSON, line 3, column 12: syntax error while parsing object separator"));
  CHECK_THAT(error_of(""), Catch::StartsWith("program JSON, line 1, column 1: syntax error"));
  CHECK_THAT(error_of("{\"a\": 1e999}"), Catch::Contains("number overflow parsing '1e999'"));
  CHECK(error_of("{\"coconet_program\": 1, \"coconet_program\": 1}") ==
        "program JSON: the key 'coconet_program' appears twice in one object");
}

TEST_CASE("a repeated key, a number that is too large and what is nested too deep have a place") {
  CHECK(error_of(R"({"coconet_program": 1, "values": [{}, {"op": "add", "op": "sub"}]})") ==
        "program JSON at /values/1: the key 'op' appears twice in one object");
  CHECK(error_of(R"({"values": [{"a/b": [0, 1e999]}]})") ==
        "program JSON at /values/0/a~1b/1: number overflow parsing '1e999'");
  CHECK_THAT(error_of(std::string(100'000, '[')),
             Catch::EndsWith("/0/0: arrays and objects are nested deeper than the 64 that are "
                             "read; no document of this library is"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK_THAT(error_of(objects), Catch::Contains("/a/a: arrays and objects are nested deeper"));
  CHECK(error_of(std::string(64, '[') + std::string(64, ']')) ==
        "program JSON: is an array; it must be an object");
}

TEST_CASE("what is not UTF-8 is refused in files, and in names that are to be written") {
  CHECK_THAT(error_of("{\"name\": \"\xff\"}"),
             Catch::StartsWith("program JSON, line 1, column 11: ") &&
                 Catch::Contains("ill-formed UTF-8 byte"));
  const Program p("\xff", Mesh({{"world", 2}}));
  CHECK_THROWS_WITH(
      p.json(), "program '\xff' cannot be written as JSON, which is UTF-8: a name in it is not");
}

TEST_CASE("errors at the top level") {
  CHECK(error_of("[]") == "program JSON: is an array; it must be an object");
  CHECK(error_of("{}") == "program JSON: the key 'coconet_program' is missing");
  CHECK(error_of(R"({"coconet_program": 2, "bodies": []})") ==
        "program JSON at /coconet_program: version 2 is unknown; this library reads version 1");
  CHECK(error_of(R"({"coconet_program": "1"})") ==
        "program JSON at /coconet_program: is a string; it must be a whole number of at least 1");
  CHECK(error_of(R"({"coconet_program": 1, "nmae": "p"})") ==
        "program JSON at /nmae: unknown key 'nmae'; did you mean 'name'?");
  CHECK(error_of(R"({"coconet_program": 1, "name": "p"})") ==
        "program JSON: the key 'mesh' is missing");
  CHECK(error_of(R"({"coconet_program": 1, "name": ""})") ==
        "program JSON at /name: is empty; it must be a name");
  CHECK(error_of(R"({"coconet_program": 1, "name": "p", "mesh": []})") ==
        "program JSON at /mesh: a mesh needs at least one axis, such as {\"world\", 2}");
  CHECK(error_of(R"({"coconet_program": 1, "name": "p", "mesh": [{"name": "a", "size": 0}]})") ==
        "program JSON at /mesh/0/size: is the number 0; it must be a whole number of at least 1");
  CHECK(
      error_of(
          R"({"coconet_program": 1, "name": "p", "mesh": [{"name": "a", "size": 4294967296}]})") ==
      "program JSON at /mesh/0/size: is the number 4294967296; it must be a whole number below "
      "2^31");
  CHECK(error_of(R"({"coconet_program": 18446744073709551615})") ==
        "program JSON at /coconet_program: is the number 18446744073709551615; it must be a whole "
        "number of at least 1 and below 2^63");
  CHECK(error_of(R"({"coconet_program": 1, "name": "p", "mesh": [{"name": "a", "size": 1.5}]})") ==
        "program JSON at /mesh/0/size: is the number 1.5; it must be a whole number of at least 1");
  CHECK(error_of(R"({"coconet_program": 1, "name": "p", "mesh": [{"name": "a", "size": 1}],
                     "dims": [{"name": "n"}, {"name": "n"}], "values": []})") ==
        "program JSON at /dims/1: program 'p' has a dimension 'n' already");
}

TEST_CASE("errors in values point at them") {
  const auto error = [](const std::string& values) { return error_of(with_values(values)); };
  CHECK(error(R"({"op": "isnan", "operands": ["w"], "dtype": "f32"})")
            .starts_with("program JSON at /values/2/dtype: unknown key 'dtype'"));
  CHECK(error(R"("x")") == "program JSON at /values/2: is a string; it must be an object");
  CHECK(error(R"({"name": "x"})") == "program JSON at /values/2: the key 'op' is missing");
  CHECK(error(R"({"op": "al_reduce"})") ==
        "program JSON at /values/2/op: unknown op 'al_reduce'; did you mean 'all_reduce'? If it is "
        "an op of an application's own, the program that reads this must define it first, with "
        "define_pointwise of coconet/custom_op.h, as device text never comes from a file");
  CHECK(error(R"({"op": "swish_of_mine", "operands": ["w"], "device": "a * 2"})") ==
        "program JSON at /values/2/op: unknown op 'swish_of_mine'; if it is an op of an "
        "application's own, the program that reads this must define it first, with "
        "define_pointwise of coconet/custom_op.h, as device text never comes from a file");
  CHECK(error(R"({"op": "all_reduce", "operand": ["g"]})") ==
        "program JSON at /values/2/operand: unknown key 'operand'; did you mean 'operands'?");
  CHECK(error(R"({"op": "negative", "operands": ["w"], "a/b": 1})") ==
        "program JSON at /values/2/a~1b: unknown key 'a/b'; known are name, named, origin, op, "
        "operands");
  CHECK(error(R"({"op": "negative"})") ==
        "program JSON at /values/2: the key 'operands' is missing");
  CHECK(error(R"({"op": "scalar"})") == "program JSON at /values/2: the key 'name' is missing");
  CHECK(error(R"({"op": "add", "operands": ["w"]})") ==
        "program JSON at /values/2/operands: 'add' takes 2 operands, not 1");
  CHECK(error(R"({"op": "add", "operands": ["w", "g1"]})") ==
        "program JSON at /values/2/operands/1: unknown value 'g1'; did you mean 'g'?");
  CHECK(
      error(R"({"op": "add", "operands": ["w", null]})") ==
      "program JSON at /values/2/operands/1: is null; it must be the name of a value or a number");
  CHECK(error(R"({"name": "a", "op": "negative", "operands": ["b"]},
                 {"name": "b", "op": "negative", "operands": ["w"]})") ==
        "program JSON at /values/2/operands/0: value 'b' comes later; values are listed before "
        "their readers");
  CHECK(error(R"({"op": "cast", "operands": ["w"], "dtype": "fp16"})") ==
        "program JSON at /values/2/dtype: unknown dtype 'fp16'; did you mean 'f16'?");
  CHECK(error(R"({"op": "all_reduce", "operands": ["g"], "reduction": "average"})") ==
        "program JSON at /values/2/reduction: unknown reduction 'average'; known are sum, mean, "
        "max, min, prod");
  CHECK(error(R"({"op": "all_reduce", "operands": ["g"], "reduction": "sum", "axis": "wolrd"})") ==
        "program JSON at /values/2/axis: unknown mesh axis 'wolrd'; did you mean 'world'?");
  CHECK(error(R"({"op": "reduction", "operands": ["w"], "reduction": "mean"})") ==
        "program JSON at /values/2/reduction: a mean over dimensions is written as a sum and a "
        "division by their extents");
  CHECK(error(R"({"op": "constant", "number": "one"})") ==
        "program JSON at /values/2/number: is a string; it must be a number, \"inf\", \"-inf\" or "
        "\"nan\"");
  CHECK(error(R"({"op": "extent", "extent": "m"})") ==
        "program JSON at /values/2/extent: unknown dimension 'm'; known are n");
  CHECK(
      error(R"({"op": "broadcast", "operands": ["g"], "root": -1})") ==
      "program JSON at /values/2/root: is the number -1; it must be a whole number of at least 0");
}

TEST_CASE("a seed of dropout is a whole number of 64 bits") {
  const auto with_seed = [](const std::string& seed) {
    return with_values(R"({"op": "dropout", "operands": ["w", 0], "probability": 0.5, "seed": )" +
                       seed + "}");
  };
  CHECK(Program::parse(with_seed("18446744073709551615")).str().find("seed 18446744073709551615") !=
        std::string::npos);
  for (const char* seed : {"-1", "1.5", "18446744073709551616"}) {
    CHECK_THAT(error_of(with_seed(seed)),
               Catch::StartsWith("program JSON at /values/2/seed: is the number ") &&
                   Catch::EndsWith("; it must be a whole number from 0 to 2^64 - 1"));
  }
}

TEST_CASE("errors in layouts point at them") {
  const auto error = [](const std::string& layout) {
    return error_of(
        with_values(R"({"name": "x", "op": "input", "dtype": "f32", "shape": ["n"], "layout": )" +
                    layout + "}"));
  };
  CHECK(error("\"slice(0)\"") ==
        "program JSON at /values/2/layout: 'slice(0)' is no placement; it must be \"replicated\", "
        "\"local\" or \"sliced(DIM)\"");
  CHECK_THAT(error("\"sliced(-1)\""), Catch::Contains("'sliced(-1)' is no placement"));
  CHECK_THAT(error("\"sliced()\""), Catch::Contains("'sliced()' is no placement"));
  CHECK(error("3") ==
        "program JSON at /values/2/layout: is the number 3; it must be a placement, or an object "
        "with one per mesh axis");
  CHECK(error(R"({"word": "local"})") ==
        "program JSON at /values/2/layout: the layout names the axis 'word', which the mesh "
        "{world: 2} does not have; did you mean 'world'?");
}

TEST_CASE("a broken rule is reported at the value that breaks it") {
  const std::string error = error_of(with_values(
      R"({"name": "twice", "op": "all_reduce", "operands": ["w"], "reduction": "sum"})"));
  CHECK_THAT(error, Catch::StartsWith(
                        "program JSON at /values/2: in program 'p', 'twice' (all_reduce): "));
  CHECK_THAT(error_of(with_values(R"({"name": "g", "op": "negative", "operands": ["w"]})")),
             Catch::StartsWith(
                 "program JSON at /values/2: in program 'p', 'g' (negative): the name is taken"));
}

TEST_CASE("a kernel in a file need not say its kind") {
  const Program p = adam();
  ir::Graph& graph = *ir::graph_of(p);
  graph.add_fusion({"fused", {graph.require("avg")}});
  std::string json = p.json();
  const std::string kind = R"("kind": "all_reduce",)";
  REQUIRE(json.find(kind) != std::string::npos);
  CHECK(Program::parse(json.replace(json.find(kind), kind.size(), "")).json() == p.json());
}

TEST_CASE("errors in outputs and kernels point at them") {
  const std::string y = R"({"name": "y", "op": "add", "operands": ["w", "w"]})";
  const auto error = [&](const std::string& tail) { return error_of(with_values(y, ", " + tail)); };
  CHECK(error(R"("outputs": [{"name": "out", "value": "yy"}])") ==
        "program JSON at /outputs/0/value: unknown value 'yy'; did you mean 'y'?");
  CHECK_THAT(error(R"("outputs": [{"name": "out", "value": "w"}])"),
             Catch::StartsWith(
                 "program JSON at /outputs/0: output 'out' of program 'p' is the state 'w'"));
  CHECK(error(R"("kernels": [{"name": "k", "kind": "computation", "members": []}])") ==
        "program JSON at /kernels/0/members: is empty; a kernel computes at least one value");
  CHECK(error(R"("kernels": [{"name": "k", "kind": "compute", "members": ["y"]}])") ==
        "program JSON at /kernels/0/kind: unknown kind of kernel 'compute'; known are computation, "
        "all_reduce, reduce_scatter, all_gather, reduce, broadcast, send");
  CHECK(error(R"("kernels": [{"name": "k", "kind": "send", "members": ["y"]}])") ==
        "program JSON at /kernels/0/kind: is 'send', but a kernel of these ops is of kind "
        "'computation', as none of them is a collective");
  CHECK(error(R"("kernels": [{"name": "k", "kind": "computation", "members": ["y"]},
                             {"name": "l", "kind": "computation", "members": ["y"]}])") ==
        "program JSON at /kernels/1/members/0: 'y' is a member of kernel 'k' already");
  CHECK(error(R"("kernels": [{"name": "k", "kind": "computation", "members": ["y", "y"]}])") ==
        "program JSON at /kernels/0/members/1: 'y' is a member of kernel 'k' already");
  CHECK(error(R"("kernels": [{"name": "k", "kind": "computation", "members": ["y"]},
                             {"name": "k", "kind": "computation", "members": ["w"]}])") ==
        "program JSON at /kernels/1/name: there are two kernels called 'k'");
  CHECK(
      error(
          R"("kernels": [{"name": "k", "kind": "computation", "members": ["y"],
                              "knobs": {"channel": 1}}])") ==
      "program JSON at /kernels/0/knobs/channel: unknown key 'channel'; did you mean 'channels'?");
}
