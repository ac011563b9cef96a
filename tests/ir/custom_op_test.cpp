// Pointwise ops of the application's own: what a definition may say, what it is refused for, and
// that programs treat it as an op of the table.
#include "coconet/custom_op.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/custom_op.h"
#include "ir/graph.h"
#include "ir/reference/reference.h"
#include "on_threads.h"
#include "refusal.h"

using namespace coconet;
using Catch::EndsWith;

namespace {

using Values = std::vector<Value>;

/// The example of docs/programs.md.
PointwiseOp define_softplus() {
  // docs/programs.md has these lines.
  const PointwiseOp softplus = define_pointwise(
      {.name = "softplus",
       .arity = 1,
       .rule = DTypeRule::floating,
       .cost = 40,
       .device = "log1p_(exp_(a))",
       .reference = [](double a, double, double) { return std::log1p(std::exp(a)); },
       .derivative =
           [](const Values& operands, const Value&, const Value& gradient) {
             return Values{gradient * sigmoid(operands[0])};
           }});
  return softplus;
}

/// A right definition, to be made wrong in one place.
PointwiseDefinition right(const std::string& name) {
  return {.name = name,
          .arity = 2,
          .rule = DTypeRule::numeric,
          .cost = 2,
          .device = "a * b + 1",
          .reference = [](double a, double b, double) { return a * b + 1; }};
}

std::string refused(const PointwiseDefinition& definition) {
  return refusal<ProgramError>([&] { define_pointwise(definition); });
}

/// The right definition with another device text and arity, on which only the text is wrong.
std::string refused_text(const std::string& device, int arity = 2) {
  PointwiseDefinition definition = right("wrong");
  definition.device = device;
  definition.arity = arity;
  const std::string start = "pointwise op 'wrong' has the device text \"" + device + "\", which ";
  const std::string message = refused(definition);
  return message.starts_with(start) ? message.substr(start.size()) : message;
}

std::string refused_derivative(const PointwiseDerivative& derivative,
                               DTypeRule rule = DTypeRule::numeric) {
  PointwiseDefinition definition = right("wrong");
  definition.rule = rule;
  definition.derivative = derivative;
  const std::string start = "the derivative of pointwise op 'wrong' ";
  const std::string message = refused(definition);
  return message.starts_with(start) ? message.substr(start.size()) : message;
}

}  // namespace

TEST_CASE("an op of the application's is an op like one of the table") {
  const PointwiseOp softplus = define_softplus();
  CHECK(softplus.definition().name == "softplus");
  CHECK(softplus.definition().cost == 40);
  const auto op = ir::parse_op("softplus");
  REQUIRE(op.has_value());
  const ir::PointwiseRow& row = *ir::find_pointwise(*op);
  CHECK(row.op == *op);
  CHECK(ir::to_string(*op) == "softplus");
  CHECK(ir::arity(*op) == 1);
  CHECK(ir::attribute_keys(*op).empty());
  CHECK(ir::is_elementwise(*op));
  CHECK_FALSE(ir::is_collective(*op));
  CHECK(row.cost == 40);
  CHECK(row.device == "log1p_(exp_(a))");
  CHECK(row.reference(0, 0, 0) == std::log(2.0));

  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {p.dim("n", 8)}, local);
  p.output("y", softplus(x) + 1);
  CHECK(p.str() ==
        "program p on {world: 2}, n = 8 (default)\n"
        "  x           f32[n]  local  input\n"
        "  softplus_1  f32[n]  local  softplus(x)\n"
        "  add_3       f32[n]  local  softplus_1 + 1\n"
        "outputs: y = add_3\n");
  CHECK(Program::parse(p.json()).str() == p.str());
  CHECK(Program::parse(p.json()).json() == p.json());
  CHECK(p.json().find("\"op\": \"softplus\", \"operands\": [\"x\"]}") != std::string::npos);
  CHECK(p.json().find("log1p_") == std::string::npos);
  CHECK(ir::definitions_of(*ir::graph_of(p)) == "softplus (1 operand, floating): log1p_(exp_(a))");
}

TEST_CASE("the reference computes an op of the application's, of tensors and of numbers") {
  const PointwiseOp softplus = define_softplus();
  CHECK(softplus(0).constant() == std::log(2.0));
  Program p("p", Mesh({{"world", 1}}));
  const Value x = p.input("x", f16, {3}, replicated);
  const Value number = softplus(p.scalar("t"));
  p.output("y", softplus(x).named("y"));
  p.output("z", (x * number).named("z"));
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{-1, 0, 3}});
  reference.run({{"t", 2}});
  for (std::size_t i = 0; i < 3; ++i) {
    const double of = std::vector<double>{-1, 0, 3}[i];
    CHECK(reference.get("y")[0][i] == round_to(f16, std::log1p(std::exp(of))));
    CHECK(reference.get("z")[0][i] == round_to(f16, of * std::log1p(std::exp(2.0))));
  }
}

TEST_CASE("the rule of an op of the application's decides what it takes and gives") {
  const auto of_rule = [](const std::string& name, DTypeRule rule) {
    PointwiseDefinition definition = right(name);
    definition.rule = rule;
    return define_pointwise(definition);
  };
  const PointwiseOp numeric = of_rule("of_numbers", DTypeRule::numeric);
  const PointwiseOp floating = of_rule("of_floats", DTypeRule::floating);
  const PointwiseOp compare = of_rule("comparing", DTypeRule::compare);
  const PointwiseOp logical = of_rule("of_bools", DTypeRule::logical);
  const PointwiseOp choose = of_rule("choosing", DTypeRule::choose);
  Program p("p", Mesh({{"world", 2}}));
  const Value f = p.input("f", f32, {4}, local), i = p.input("i", i32, {4}, local);
  const Value b = p.input("b", boolean, {4}, local);
  CHECK(numeric(f, f).dtype() == f32);
  CHECK(numeric(i, 2).dtype() == i32);
  CHECK(floating(f, 0.5).dtype() == f32);
  CHECK(compare(i, i).dtype() == boolean);
  CHECK(logical(b, b).dtype() == boolean);
  CHECK(choose(b, f).dtype() == f32);
  CHECK_THAT(refusal([&] { (void)numeric(b, b); }),
             EndsWith("(of_numbers): 'b' is bool[4] local; it takes floats or integers"));
  CHECK_THAT(refusal([&] { (void)floating(i, i); }),
             EndsWith("(of_floats): 'i' is i32[4] local; it takes floats"));
  CHECK_THAT(
      refusal([&] { (void)choose(f, f); }),
      EndsWith("(choosing): 'f' is f32[4] local; the condition must be bool: compare it, != 0"));
  CHECK_THAT(refusal([&] { (void)choose(b, 1); }),
             EndsWith("(choosing): what it chooses are numbers, which leave the dtype of the "
                      "result open; make one of them a tensor"));
  CHECK(refusal([&] { (void)numeric(f); }) == "of_numbers takes 2 operands, not 1");
  CHECK(refusal([&] { (void)numeric(f, f, f); }) == "of_numbers takes 2 operands, not 3");
  CHECK(refusal([&] { (void)numeric(f, Value()); }) ==
        "of_numbers was given an empty Value, which was declared and has not been assigned");
}

TEST_CASE("a definition is refused for a name that is none or that another op has") {
  const auto refused_name = [](const std::string& name) { return refused(right(name)); };
  for (const std::string name : {"", "soft plus", "2nd", "_x", "a-b", "größe"}) {
    CHECK(refused_name(name) ==
          "pointwise op '" + name +
              "' needs another name: one of letters, digits and '_' that begins with a letter");
  }
  for (const std::string name : {"exp", "all_reduce", "cast", "reduction", "sum", "mean"}) {
    CHECK(refused_name(name) ==
          "pointwise op '" + name + "' needs another name: coconet-jit has an op of this one");
  }
}

TEST_CASE("a definition is refused for an arity, a cost and a reference that are none") {
  PointwiseDefinition definition = right("wrong");
  definition.arity = 0;
  CHECK(refused(definition) == "pointwise op 'wrong' has arity 0; it must be 1, 2 or 3");
  definition.arity = 4;
  CHECK(refused(definition) == "pointwise op 'wrong' has arity 4; it must be 1, 2 or 3");
  definition.arity = 1;
  definition.rule = DTypeRule::choose;
  CHECK(refused(definition) ==
        "pointwise op 'wrong' has arity 1; that of an op that chooses must be 2 or 3");
  definition = right("wrong");
  definition.cost = -1;
  CHECK(refused(definition) == "pointwise op 'wrong' costs -1 additions; it must cost at least 0");
  definition = right("wrong");
  definition.reference = nullptr;
  CHECK(refused(definition) ==
        "pointwise op 'wrong' has no reference; give it a function that computes it in double");
  CHECK_FALSE(ir::parse_op("wrong").has_value());
}

TEST_CASE("device text is one expression over the operands, or is refused with what is wrong") {
  CHECK(refused_text("  ") == "is empty; it must be an expression such as \"a * a\"");
  CHECK(refused_text("a * (b + 1") == "has a parenthesis that is not closed");
  CHECK(refused_text("a * b) + 1") == "closes a parenthesis that is not open");
  CHECK(refused_text("a * c") == "reads 'c', but the op has 2 operands; it may read a and b");
  CHECK(refused_text("a * b", 1) == "reads 'b', but the op has one operand; it may read a");
  CHECK(refused_text("a * 2") ==
        "does not read operand b of 2; use it, or give the op another arity");
  CHECK(refused_text("exp(a) * b") ==
        "calls 'exp', which kernels do not have; did you mean 'exp_'?");
  CHECK(refused_text("a * b * pi") ==
        "reads 'pi', which kernels do not have; they have the operands a, b and c, infinity, true, "
        "false, conversions such as f32(a), and the functions abs_, ceil_, cos_, erf_, exp_, "
        "expm1_, floor_, gelu_, log1p_, log_, pow_, sign_, sin_, sqrt_, tanh_");
  for (const std::string number : {"0.5f", "1u", "0x10", "010", "1e", "1.2.3"}) {
    CHECK(refused_text("a * b * " + number) ==
          "has the number '" + number +
              "'; numbers are decimal and have no suffix, such as 0.5 or 1e-6, as they take the "
              "dtype of the operands");
  }
  CHECK(refused_text("a, b") ==
        "has a comma that is between no function's arguments; it must be one expression");
  CHECK(refused_text("pow_((a, b), a)") ==
        "has a comma that is between no function's arguments; it must be one expression");
  const auto not_allowed = [](const std::string& what) {
    return "has '" + what +
           "'; it must be one expression of operands, numbers, calls, parentheses and the "
           "operators of C++ that assign nothing";
  };
  CHECK(refused_text("a * b;") == not_allowed(";"));
  CHECK(refused_text("a = b") == not_allowed("="));
  CHECK(refused_text("a += b") == not_allowed("+="));
  CHECK(refused_text("a >>= b") == not_allowed(">>="));
  CHECK(refused_text("a-- * b") == not_allowed("--"));
  CHECK(refused_text("a * b // c") == not_allowed("//"));
  CHECK(refused_text("a * b\n+ 1") == not_allowed("\n"));
  CHECK(refused_text("a[0] * b") == not_allowed("["));
  CHECK(refused_text("a * b + 'x'") == not_allowed("'"));
  for (const std::string text :
       {"a*b", "a < b ? a : b", "pow_(a, exp_(b))", "f32(a) * .5 + b * 1e-6 + 2.", "a >> b",
        "(a == b) | (a <= b && !(a >= b))", "infinity - a * b", "bool(a & b)", "-(a - (-b))"}) {
    CHECK(ir::device_text_problem(text, 2) == "");
  }
}

TEST_CASE("a derivative gives a gradient for each operand, or is refused") {
  CHECK(refused_derivative([](const Values&, const Value&, const Value& g) { return Values{g}; }) ==
        "gives 1 gradient; it must give 2, one for each operand, of which those that an operand "
        "does not have are an empty Value");
  CHECK(refused_derivative([](const Values& x, const Value&, const Value& g) {
          return Values{g * x[1], sum(g * x[0])};
        }) ==
        "gives sum_6: f32[] replicated as gradient of b, which is f32[n]; both must have one dtype "
        "and shape");
  CHECK(refused_derivative([](const Values& x, const Value&, const Value& g) {
          return Values{g < x[0], g};
        }) ==
        "gives less_4: bool[n] replicated as gradient of a, which is f32[n]; both must have one "
        "dtype and shape");
  CHECK(refused_derivative([](const Values& x, const Value&, const Value& g) {
          return Values{g * cast(x[0], f64), g};
        }).starts_with("cannot be written for operands f32[n]: in program 'derivative of wrong'"));
  Program other("other", Mesh({{"world", 1}}));
  const Value kept = other.input("kept", f32, {4}, replicated);
  CHECK(refused_derivative([&](const Values&, const Value&, const Value& g) {
          return Values{g, kept};
        }) ==
        "gives 'kept' of program 'other' as gradient of b; it must compute it from its arguments");
  const PointwiseDerivative both = [](const Values&, const Value&, const Value& g) {
    return Values{g, g};
  };
  CHECK(refused_derivative(both, DTypeRule::choose) ==
        "gives a gradient of a, which is bool; it must give an empty Value for it");
  for (const DTypeRule rule : {DTypeRule::compare, DTypeRule::logical})
    CHECK(refused_derivative(both, rule) == "cannot be, as the op's result is bool; leave it out");
}

TEST_CASE("the derivative of an op of the application's is kept for those who want gradients") {
  const PointwiseOp softplus = define_softplus();
  Program p("p", Mesh({{"world", 1}}));
  const Value x = p.input("x", f32, {4}, replicated), g = p.input("g", f32, {4}, replicated);
  const Values gradients = softplus.definition().derivative({x}, softplus(x), g);
  REQUIRE(gradients.size() == 1);
  p.output("dx", gradients[0].named("dx"));
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{-1, 0, 1, 2}});
  reference.set("g", {{1, 2, 3, 4}});
  reference.run({});
  for (std::size_t i = 0; i < 4; ++i) {
    const double at = static_cast<double>(i) - 1, step = 1e-6;
    const double slope =
        (std::log1p(std::exp(at + step)) - std::log1p(std::exp(at - step))) / (2 * step);
    CHECK(reference.get("dx")[0][i] == Approx(slope * static_cast<double>(i + 1)));
  }
}

TEST_CASE("an op may be defined again, and only alike") {
  const PointwiseOp first = define_pointwise(right("again"));
  CHECK(&define_pointwise(right("again")).definition() == &first.definition());
  // An equal lambda in another translation unit is another function.
  PointwiseDefinition copy = right("again");
  copy.reference = [](double x, double y, double) { return y * x + 1; };
  CHECK(&define_pointwise(copy).definition() == &first.definition());

  const std::string start = "pointwise op 'again' is defined already, with ";
  const std::string end = "; an op is defined once, or each time alike: give this one another name";
  PointwiseDefinition other = right("again");
  other.device = "1 + a * b";
  CHECK(refused(other) ==
        start + "the device text \"a * b + 1\" where this one has \"1 + a * b\"" + end);
  other = right("again");
  other.rule = DTypeRule::floating;
  CHECK(refused(other) == start + "another dtype rule" + end);
  other = right("again");
  other.cost = 3;
  CHECK(refused(other) == start + "cost 2 where this one has 3" + end);
  other = right("again");
  other.reference = [](double a, double b, double) { return a * b + 1.5; };
  CHECK(refused(other) == start + "a reference that computes something else" + end);
  other = right("again");
  other.derivative = [](const Values& x, const Value&, const Value& g) {
    return Values{g * x[1], g * x[0]};
  };
  CHECK(refused(other) == start + "another derivative" + end);

  PointwiseDefinition of_three = right("of_three");
  of_three.arity = 3;
  of_three.device = "a * b + c";
  define_pointwise(of_three);
  CHECK(refused(right("of_three")) ==
        "pointwise op 'of_three' is defined already, with the device text \"a * b + c\" where this "
        "one has \"a * b + 1\"" +
            end);

  // Of one operand, alike at 1 alone.
  PointwiseDefinition squared = right("squared");
  squared.arity = 1;
  squared.device = "a * a";
  squared.reference = [](double x, double, double) { return x * x; };
  define_pointwise(squared);
  squared.reference = [](double x, double, double) { return x; };
  CHECK(refused(squared) ==
        "pointwise op 'squared' is defined already, with a reference that "
        "computes something else" +
            end);

  (void)define_softplus();
  CHECK(&define_softplus().definition() == &define_softplus().definition());
}

TEST_CASE("threads define and use ops at once") {
  constexpr int threads = 8, ops = 40;
  std::vector<std::vector<std::string>> printed(threads);
  test::on_threads(threads, [&](int t) {
    for (int i = 0; i < ops; ++i) {
      const PointwiseOp op = define_pointwise(right("shared_" + std::to_string(i)));
      Program p("p", Mesh({{"world", 1}}));
      const Value x = p.input("x", f32, {4}, replicated);
      p.output("y", op(x, x).named("y"));
      printed[static_cast<std::size_t>(t)].push_back(Program::parse(p.json()).str());
    }
  });
  for (int t = 1; t < threads; ++t) CHECK(printed[static_cast<std::size_t>(t)] == printed[0]);
  const std::vector<std::string> names = ir::custom_names();
  for (int i = 0; i < ops; ++i)
    CHECK(std::count(names.begin(), names.end(), "shared_" + std::to_string(i)) == 1);
}
