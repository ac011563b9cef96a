// Pointwise ops that an application defines: what the table's rows are held to, of every arity,
// rule and dtype; in kernels with collectives and reductions; and their device text in the key of
// kernels, in the compilers' errors, and in no file.
#include <cmath>
#include <fstream>
#include <limits>

#include "child_process.h"
#include "elements.h"
#include "ir/access.h"
#include "ir/custom_op.h"
#include "jit/codegen/codegen.h"
#include "jit/conformance/conformance_rows.h"
#include "jit/platform/cuda/nvrtc.h"
#include "refusal.h"
#include "require_exit.h"
#include "sched/cost/work.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Contains;

namespace {

PointwiseOp softplus() {
  return define_pointwise(
      {.name = "softplus",
       .arity = 1,
       .rule = DTypeRule::floating,
       .cost = 40,
       .device = "log1p_(exp_(a))",
       .reference = [](double a, double, double) { return std::log1p(std::exp(a)); }});
}

/// One op at least of every arity and rule. What they compute of whole numbers is exact, as bool
/// and integers must be equal to the reference's.
const std::vector<PointwiseDefinition> definitions = {
    {.name = "cubic",
     .arity = 1,
     .rule = DTypeRule::numeric,
     .device = "a * a * a - 2 * a",
     .reference = [](double a, double, double) { return a * a * a - 2 * a; }},
    {.name = "average",
     .arity = 2,
     .rule = DTypeRule::floating,
     .device = "0.5 * a + b * 5e-1",
     .reference = [](double a, double b, double) { return 0.5 * a + b * 0.5; }},
    {.name = "weighted",
     .arity = 3,
     .rule = DTypeRule::numeric,
     .device = "a + b * 3 - c",
     .reference = [](double a, double b, double c) { return a + b * 3 - c; }},
    {.name = "lerp",
     .arity = 3,
     .rule = DTypeRule::floating,
     .device = "a + c * (b - a)",
     .reference = [](double a, double b, double c) { return a + c * (b - a); }},
    {.name = "clamped",
     .arity = 3,
     .rule = DTypeRule::numeric,
     .device = "a < b ? b : a > c ? c : a",
     .reference = [](double a, double b, double c) { return a < b   ? b
                                                            : a > c ? c
                                                                    : a; }},
    {.name = "is_negative",
     .arity = 1,
     .rule = DTypeRule::compare,
     .device = "a < 0",
     .reference = [](double a, double, double) { return a < 0 ? 1.0 : 0.0; }},
    // Not 0 or 1: any number that is not 0 is true.
    {.name = "differ",
     .arity = 2,
     .rule = DTypeRule::compare,
     .device = "a > b ? 2 : b > a ? 3 : 0",
     .reference = [](double a, double b, double) { return a == b ? 0.0 : 1.0; }},
    {.name = "between",
     .arity = 3,
     .rule = DTypeRule::compare,
     .device = "(a <= b) & (b <= c)",
     .reference = [](double a, double b, double c) { return a <= b && b <= c ? 1.0 : 0.0; }},
    {.name = "nay",
     .arity = 1,
     .rule = DTypeRule::logical,
     .device = "!a",
     .reference = [](double a, double, double) { return a == 0 ? 1.0 : 0.0; }},
    {.name = "exclusive",
     .arity = 2,
     .rule = DTypeRule::logical,
     .device = "a ^ b",
     .reference = [](double a, double b, double) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }},
    {.name = "majority",
     .arity = 3,
     .rule = DTypeRule::logical,
     .device = "a + b + c > 1",
     .reference = [](double a, double b, double c) { return a + b + c > 1 ? 1.0 : 0.0; }},
    {.name = "kept_if",
     .arity = 2,
     .rule = DTypeRule::choose,
     .device = "a ? b : 0",
     .reference = [](double a, double b, double) { return a != 0 ? b : 0; }},
    {.name = "second_if",
     .arity = 3,
     .rule = DTypeRule::choose,
     .device = "a ? c : b",
     .reference = [](double a, double b, double c) { return a != 0 ? c : b; }},
};

std::vector<const ir::PointwiseRow*> ops_of_all_kinds() {
  std::vector<const ir::PointwiseRow*> rows;
  for (const PointwiseDefinition& definition : definitions) {
    define_pointwise(definition);
    rows.push_back(&ir::find_custom(definition.name)->row);
  }
  softplus();
  rows.push_back(&ir::find_custom("softplus")->row);
  return rows;
}

/// y = softplus(x), one kernel.
Program program_of_softplus(DType dtype) {
  Program program("soft", Mesh({{"world", 1}}));
  program.output("y", softplus()(program.input("x", dtype, {program.dim("n")}, local)).named("y"));
  return program;
}

jit::KernelText kernel_of(const Program& program) {
  auto texts = jit::generate(sched::lower(*ir::graph_of(program)));
  REQUIRE(texts.size() == 1);
  return texts.front();
}

}  // namespace

TEST_CASE("ops of an application's equal the reference in every arity, rule and dtype") {
  const auto rows = ops_of_all_kinds();
  for (const DType dtype : all_dtypes) check_rows(rows, dtype);
}

TEST_CASE("an op of an application's is part of fused kernels with collectives") {
  const PointwiseOp op = softplus();
  for (const DType dtype : {f64, f32, f16, bf16}) {
    INFO(to_string(dtype));
    Program program("step", Mesh({{"world", 2}}));
    const Dim n = program.dim("n");
    const Value g = program.input("g", dtype, {n}, local);
    const Value w = program.state("w", dtype, {n}, replicated);
    const Value average = all_reduce(op(g).named("soft"), mean).named("average");
    update(w, w - 0.1 * op(average));
    const std::vector<Sizes> sizes = {{{"n", 1}}, {{"n", 1003}}, {{"n", 40000}}};
    require_all_conform(program, Schedule("unfused"), 2, cases_with(sizes, 2));
    Schedule scattered("scattered");
    scattered.split("average", "reduce_scatter+all_gather")
        .reorder("average.all_gather", {"w.new"})
        .fuse("step", "all_reduce", {"average.reduce_scatter", "w.all_gather", "w.new"});
    require_all_conform(program, scattered, 2, cases_with(sizes, 2));
  }
}

TEST_CASE("an op of an application's is part of kernels that reduce") {
  const PointwiseOp op = softplus();
  Program program("reductions", Mesh({{"world", 2}}));
  const Dim n = program.dim("n"), m = program.dim("m");
  const Value x = program.input("x", f32, {n, m}, sliced(0));
  program.output("all", sum(op(x)).named("all"));
  program.output("rows", max(op(x), {1}).named("rows"));
  program.output("columns", mean(op(x) * 2, {0}).named("columns"));
  require_all_conform(program, Schedule("unfused"), 2,
                      cases_with({{{"n", 3}, {"m", 5}}, {{"n", 130}, {"m", 1031}}}, 1));
}

TEST_CASE("an op of numbers only is computed on the host") {
  const PointwiseOp op = softplus();
  Program program("numbers", Mesh({{"world", 2}}));
  const Value x = program.input("x", f32, {program.dim("n")}, local);
  program.output("y", (x * op(program.scalar("s"))).named("y"));
  require_all_conform(program, Schedule("none"), 2, cases_with({Sizes{{"n", 103}}}, 1));
}

TEST_CASE("the cost of an op of an application's counts in the cost model") {
  const auto operations = [](const Program& program) {
    return sched::work_of(sched::lower(*ir::graph_of(program)), {{"n", 1000}})
        .steps.at(0)
        .operations;
  };
  CHECK(operations(program_of_softplus(f32)) == 40 * 1000);
}

TEST_CASE("the kernel has the device text, with numbers of the dtype, after its label") {
  define_pointwise({.name = "scaled_up",
                    .device = "a * 1.5 + 1e-3 * 2",
                    .reference = [](double a, double, double) { return a * 1.5 + 2e-3; }});
  const auto source = [](DType dtype) {
    Program program("scaled", Mesh({{"world", 1}}));
    const Value x = program.input("x", dtype, {program.dim("n")}, local);
    program.output("y", detail::pointwise("scaled_up", {x}).named("y"));
    return kernel_of(program).source;
  };
  CHECK_THAT(source(f64), Contains("// op y (scaled_up)\n") &&
                              Contains("const f64 y = f64(x * 1.5 + 1e-3 * 2);"));
  CHECK_THAT(source(f32), Contains("const f32 y = f32(x * 1.5f + 1e-3f * 2);"));
  CHECK_THAT(source(bf16), Contains("const f32 y = rounded<bf16>(x * 1.5f + 1e-3f * 2);"));
}

TEST_CASE("two definitions in two processes give two keys, and one definition gives one") {
  const auto key = [](const std::string& device) {
    const std::string said =
        require_exit(run_test_case("custom-op-key", "TEST_DEVICE_TEXT='" + device + "'"));
    const std::size_t at = said.find("key ");
    REQUIRE(at != std::string::npos);
    return said.substr(at + 4, 64);
  };
  const std::string first = key("a + a");
  CHECK(first == key("a + a"));
  CHECK(first != key("a * 2"));
}

TEST_CASE("device text that does not compile is an error that names the op") {
  define_pointwise({.name = "odd_one",
                    .arity = 1,
                    .rule = DTypeRule::numeric,
                    .device = "a % 2",
                    .reference = [](double a, double, double) { return std::fmod(a, 2); }});
  const World world = World::self();
  const auto step = [&](DType dtype) {
    Program program("odd", Mesh::over(world));
    const Value x = program.input("x", dtype, {program.dim("n")}, local);
    program.output("y", (detail::pointwise("odd_one", {x}) + 1).named("y"));
    return compile(program, Schedule("none"), world, {{"n", 8}});
  };
  CHECK_NOTHROW(step(i32));
  CHECK_THAT(refusal<CompileError>([&] { (void)step(f32); }),
             Contains("does not compile; the first error is in op odd_one_1 (odd_one)"));
}

TEST_CASE("NVRTC compiles ops of an application's in every dtype") {
  if (!jit::nvrtc::is_available()) return;
  const jit::NvrtcCompiler compiler("sm_90");
  const auto rows = ops_of_all_kinds();
  for (const DType dtype : all_dtypes) {
    std::vector<const ir::PointwiseRow*> accepted;
    for (const ir::PointwiseRow* row : rows) {
      if (accepts(row->rule, dtype)) accepted.push_back(row);
    }
    const RowsProgram made = program_of_rows(accepted, dtype, 1);
    const Program scheduled = one_kernel("rows", made.outputs).apply(made.program).back();
    const jit::CompileResult result =
        compiler.compile(jit::complete_source(kernel_of(scheduled), "cuda"));
    INFO(to_string(dtype) << "\n" << result.log);
    CHECK(result.ok);
    CHECK(result.binary.substr(0, 4) ==
          "\x7f"
          "ELF");
  }
}

TEST_CASE("a program file with an op of an application's runs where it is defined only") {
  const ScratchDirectory scratch;
  const std::string file = scratch.path() / "soft.json";
  std::ofstream(file) << program_of_softplus(f32).json();
  require_all_conform(Program::load(file), Schedule("none"), 1, cases_with({Sizes{{"n", 103}}}, 1));
  const ChildOutput output = run_command("run " + file);
  INFO(output.text);
  CHECK(output.code != 0);
  CHECK_THAT(output.text,
             Contains(file + ": program JSON at /values/1/op: unknown op 'softplus'; if it is an "
                             "op of an application's own, the program that reads this must define "
                             "it first, with define_pointwise of coconet/custom_op.h, as device "
                             "text never comes from a file"));
}

TEST_CASE("conversions in an op's text, and of its result, saturate as casts do") {
  const PointwiseOp narrowed = define_pointwise({.name = "narrowed",
                                                 .device = "i8(a) + 0.5 * u8(a)",
                                                 .reference = [](double a, double, double) {
                                                   return round_to(i8, a) + 0.5 * round_to(u8, a);
                                                 }});
  const PointwiseOp scaled =
      define_pointwise({.name = "scaled_as_float",
                        .rule = DTypeRule::numeric,
                        .device = "1e9 * a",
                        .reference = [](double a, double, double) { return 1e9 * a; }});
  const World world = World::self();
  Program program("conversions", Mesh::over(world));
  constexpr int n = 37;
  const Value x = program.input("x", f32, {n}, replicated);
  const Value i = program.input("i", i32, {n}, replicated);
  const Value j = program.input("j", i8, {n}, replicated);
  program.output("y", narrowed(x).named("y"));
  program.output("of_i32", scaled(i).named("of_i32"));
  program.output("of_i8", scaled(j).named("of_i8"));
  Executable step = compile(program, Schedule("none"), world);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [given, expected] : std::vector<std::pair<float, float>>{
           {infinity, 254.5F}, {-1e30F, -128.0F}, {100.9F, 150.0F}, {std::nanf(""), 0.0F}}) {
    step.write("x", std::vector<float>(n, given));
    step.write("i", std::vector<std::int32_t>(n, given > 0 ? 3 : -3));
    step.write("j", std::vector<std::int8_t>(n, given > 0 ? 1 : -1));
    step.run();
    CHECK(elements_of(step, "y") == std::vector<float>(n, expected));
    using Limits = std::numeric_limits<std::int32_t>;
    CHECK(elements_of<std::int32_t>(step, "of_i32") ==
          std::vector<std::int32_t>(n, given > 0 ? Limits::max() : Limits::min()));
    CHECK(elements_of<std::int8_t>(step, "of_i8") ==
          std::vector<std::int8_t>(n, given > 0 ? 127 : -128));
  }
}
