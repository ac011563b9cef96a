// Every row of the table of pointwise ops, on every dtype that its rule takes, and every cast,
// equal the reference.
#include <cmath>
#include <limits>

#include "elements.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "jit/conformance/conformance_rows.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("every pointwise op equals the reference on every dtype") {
  std::vector<const ir::PointwiseRow*> rows;
  for (const ir::PointwiseRow& row : ir::pointwise_table()) rows.push_back(&row);
  for (const DType dtype : all_dtypes) check_rows(rows, dtype);
}

TEMPLATE_TEST_CASE("a negative zero has an absolute value without a sign", "", float, double) {
  const World world = World::self();
  Program program("zeros", Mesh::over(world));
  const Value x = program.input("x", dtype_of<TestType>, {2}, replicated);
  program.output("y", (1 / abs(x)).named("y"));
  Executable step = compile(program, one_kernel("zeros", {"y"}), world);
  step.write("x", std::vector<TestType>{-0.0, 0.0});
  step.run();
  CHECK(elements_of<TestType>(step, "y") ==
        std::vector<TestType>(2, std::numeric_limits<TestType>::infinity()));
}

TEMPLATE_TEST_CASE("the sign of a zero is 0, whatever sign it has", "", Half, BFloat16, float,
                   double) {
  const World world = World::self();
  Program program("zeros", Mesh::over(world));
  const Dim n = program.dim("n");
  const Value x = program.input("x", dtype_of<TestType>, {n}, replicated);
  program.output("y", (1 / sign(x)).named("y"));
  for (const std::size_t count : {std::size_t{2}, std::size_t{203}}) {  // vectors and a tail
    const double infinity = std::numeric_limits<double>::infinity();
    std::vector<TestType> zeros;
    for (std::size_t i = 0; i < count; ++i) zeros.push_back(TestType(i % 3 == 0 ? -0.0F : 0.0F));
    ir::Reference reference(*ir::graph_of(program), {{"n", static_cast<std::int64_t>(count)}});
    ir::Data data;
    for (const TestType zero : zeros) data.push_back(static_cast<float>(zero));
    reference.set("x", ir::RankData{data});
    reference.run({});
    CHECK(reference.get("y")[0] == ir::Data(count, infinity));
    Executable step = compile(program, one_kernel("zeros", {"y"}), world,
                              {{"n", static_cast<std::int64_t>(count)}});
    step.write("x", zeros);
    step.run();
    const std::vector<TestType> y = elements_of<TestType>(step, "y");
    for (const TestType one : y) CHECK(static_cast<float>(one) == infinity);
  }
}

TEST_CASE("a power that is a number equals the reference") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    Program program("powers", Mesh({{"world", 2}}));
    const Value x = program.input("x", dtype, {program.dim("n")}, local);
    std::vector<std::string> names;
    for (const double exponent : {-2.0, -1.0, -0.5, 0.5, 2.0, 3.0, 4.0, 5.0}) {
      const std::string name = "power_" + std::to_string(names.size());
      const Value base = std::fabs(exponent) == 0.5 ? abs(x) + 0.25 : x;
      program.output(name, pow(base, exponent).named(name));
      names.push_back(name);
    }
    require_conforms(program, one_kernel("powers_of_" + std::string(to_string(dtype)), names), 2,
                     {Sizes{{"n", 1}}, Sizes{{"n", 1003}}});
  }
}

TEST_CASE("every cast equals the reference") {
  for (const DType from : all_dtypes) {
    Program program("casts", Mesh({{"world", 2}}));
    const Dim n = program.dim("n");
    const Value g = program.input("g", from, {n}, local);
    std::vector<std::string> names;
    for (const DType to : all_dtypes) {
      // Float to integer truncates what is in the integer's range; integer to integer wraps.
      Value value = g;
      if (is_float(from)) value = 100 * (to == u8 ? abs(g) : g);
      if (is_integer(from) && size_of(from) > 1) value = 1000 * g;
      if (is_integer(from) && size_of(from) == 1) value = 40 * g;
      const std::string name = "to_" + std::string(to_string(to));
      program.output(name, cast(value, to).named(name));
      names.push_back(name);
    }
    require_conforms(program, one_kernel("from_" + std::string(to_string(from)), names), 2,
                     {Sizes{{"n", 1}}, Sizes{{"n", 1003}}});
  }
}

TEST_CASE("ops that no schedule names are kernels of their own and equal the reference") {
  Program program("default_kernels", Mesh({{"world", 2}}));
  const Dim n = program.dim("n");
  const Value g = program.input("g", f32, {n}, local);
  const Value w = program.state("w", f32, {n}, replicated);
  const Value v = program.state("v", f32, {n}, local);
  const Value lr = program.scalar("lr");
  const Value scaled = (lr * g).named("scaled");
  update(v, v + scaled);
  program.output("sum", scaled + w);
  program.output("sign_of_g", g < 0);
  require_conforms(program, Schedule("none"), 2, {Sizes{{"n", 1}}, Sizes{{"n", 1003}}}, 3);
}

TEST_CASE("infinities, NaN and signed zeros go through kernels as through the reference") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    Program program("specials", Mesh({{"world", 1}}));
    const Dim n = program.dim("n");
    const Value g = program.input("g", dtype, {n}, local);
    const double infinity = std::numeric_limits<double>::infinity();
    const Value specials = select(g < -0.7, -infinity,
                                  select(g < -0.4, infinity - g * 0 + -infinity,
                                         select(g < 0, -0.0, select(g < 0.5, infinity, g))))
                               .named("specials");
    std::vector<std::string> names = {"specials"};
    program.output("specials", specials);
    int count = 0;
    const auto keep = [&](const Value& value) {
      const std::string name = "r" + std::to_string(++count);
      program.output(name, value.named(name));
      names.push_back(name);
    };
    keep(maximum(specials, g));
    keep(minimum(g, specials));
    keep(1 / specials);
    keep(abs(specials));
    keep(sign(specials));
    keep(cast(specials, boolean));
    keep(isnan(specials));
    keep(isfinite(specials));
    require_conforms(program, one_kernel("specials_" + std::string(to_string(dtype)), names), 1,
                     {Sizes{{"n", 301}}});
  }
}

TEMPLATE_TEST_CASE("isnan and isfinite tell what is no number and what is none of the infinities",
                   "", Half, BFloat16, float, double) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> kinds = {0.0, -0.0, 1.5, -6e4, 6e-8, infinity, -infinity, nan};
  // Vectors of them, and a tail.
  std::vector<TestType> x;
  std::vector<std::uint8_t> is_nan, is_finite;
  for (int i = 0; i < 203; ++i) {
    const double value = kinds[static_cast<std::size_t>(i * i + i / 7) % kinds.size()];
    x.push_back(TestType(value));
    is_nan.push_back(std::isnan(value) ? 1 : 0);
    is_finite.push_back(std::isfinite(value) ? 1 : 0);
  }
  const World world = World::self();
  Program program("kinds", Mesh::over(world));
  const Dim n = program.dim("n");
  const Value g = program.input("x", dtype_of<TestType>, {n}, replicated);
  program.output("nan", isnan(g).named("nan"));
  program.output("finite", isfinite(g).named("finite"));
  Executable step = compile(program, one_kernel("kinds", {"nan", "finite"}), world,
                            {{"n", static_cast<std::int64_t>(x.size())}});
  step.write("x", x);
  step.run();
  CHECK(step.data<bool>("nan").size() == x.size());
  const auto bytes = [&](const std::string& name) {
    const auto flags = step.data<bool>(name);
    return std::vector<std::uint8_t>(flags.begin(), flags.end());
  };
  CHECK(bytes("nan") == is_nan);
  CHECK(bytes("finite") == is_finite);
}

TEST_CASE("a choice between two numbers equals the reference in every dtype that is stated") {
  Program program("choices", Mesh({{"world", 2}}));
  const Dim n = program.dim("n");
  const Value g = program.input("g", f32, {n}, local);
  const Value rate = program.scalar("rate");
  std::vector<std::string> names;
  for (const DType dtype : all_dtypes) {
    const std::string name = "as_" + std::string(to_string(dtype));
    // 0.3 must be rounded to the dtype; a scalar, too.
    const Value choice =
        is_float(dtype) ? select(g < 0, 0.3, rate, dtype) : select(g < 0, 1, 0, dtype);
    program.output(name, choice.named(name));
    names.push_back(name);
  }
  std::vector<Checked> cases = cases_with({Sizes{{"n", 1}}, Sizes{{"n", 1003}}}, 1);
  for (Checked& checked : cases) checked.options.drive.scalars["rate"] = 1.1;
  require_all_conform(program, one_kernel("choices", names), 2, std::move(cases));
}
