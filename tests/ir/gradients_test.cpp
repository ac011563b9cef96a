// Gradients: each op's rule, what ranks add up, and what is refused.
#include <catch2/catch.hpp>

#include <algorithm>

#include "coconet/custom_op.h"
#include "coconet/functions.h"
#include "golden.h"
#include "ir/derivatives.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using ir::Op;

namespace {

constexpr double close_enough = 1e-6;
const Mesh two({{"world", 2}});

/// Where `row` is smooth: everything but steps, and what is not defined for negative operands.
double in_domain(std::mt19937& random, const std::string& name) {
  const double positive = std::uniform_real_distribution(0.25, 1.75)(random);
  return name.starts_with("signed") && random() % 2 == 0 ? -positive : positive;
}

bool takes_negative(Op op) {
  return op != Op::pow && op != Op::sqrt && op != Op::rsqrt && op != Op::log && op != Op::log1p;
}

Value apply(const ir::PointwiseRow& row, const Value& a, const Value& b) {
  if (row.op == Op::select) return select(a < b, a * b, b);
  return row.arity == 1 ? detail::pointwise(row.name, {a}) : detail::pointwise(row.name, {a, b});
}

/// A program of one axis and two ranks over matrices of f64.
struct Matrices {
  Program p{"p", two};
  Dim n = p.dim("n", 3), m = p.dim("m", 4);
  Value input(const char* name, const Shape& shape, Placement placement) {
    return p.input(name, f64, shape, placement);
  }
};

}  // namespace

TEST_CASE("every pointwise op has the derivative of its reference, in every layout") {
  const std::vector<Placement> layouts = {replicated, local, sliced(0), sliced(1)};
  for (const ir::PointwiseRow& row : ir::pointwise_table()) {
    int checked = 0;
    for (const Placement of_a : layouts) {
      for (const Placement of_b : layouts) {
        for (const int broadcast : {0, 1, 2}) {
          Matrices f;
          const std::string kind = takes_negative(row.op) ? "signed " : "positive ";
          const Value a = f.p.input(kind + "a", f64, {f.n, f.m}, of_a);
          const Shape shapes[] = {{f.n, f.m}, {f.m}, {f.n, 1}};
          Value b, result;
          try {
            b = f.p.input(kind + "b", f64, shapes[broadcast], of_b);
            result = apply(row, a, b);
          } catch (const ProgramError&) {
            continue;  // layouts that do not combine
          }
          if (!is_float(result.dtype())) continue;
          Value weighted = result * cos(0.5 * result);
          if (weighted.layout()[0] == local) weighted = all_reduce(weighted, sum);
          const Value loss = sum(weighted);
          const bool binary = row.arity > 1;
          INFO(row.name << "\n" << f.p.str());
          if (row.op == Op::sign || row.op == Op::floor || row.op == Op::ceil) {
            CHECK_THAT(refusal([&] { (void)gradients(loss, {a}); }),
                       Contains("the loss does not depend on"));
          } else {
            const std::vector<Value> of = binary ? std::vector{a, b} : std::vector{a};
            CHECK(distance_from_differences(loss, of, {}, 7, in_domain) < close_enough);
          }
          ++checked;
        }
      }
    }
    const bool is_real = row.rule == ir::DTypeRule::numeric ||
                         row.rule == ir::DTypeRule::floating || row.op == Op::select;
    INFO(row.name);
    CHECK((checked > 0) == is_real);
  }
}

TEST_CASE("what is composed has the derivative of its formula, over slices, too") {
  for (const Placement placement : {replicated, sliced(0), sliced(1)}) {
    Matrices f;
    const Value x = f.input("x", {f.n, f.m}, placement),
                gamma = f.input("gamma", {f.m}, replicated);
    const Value made = softmax(x) * gamma + softmax(x, 0) + layer_norm(x, gamma, gamma, -1, 0.1) +
                       rms_norm(x, gamma) + logsumexp(x, {0}) + logsumexp(x, {1}, true) +
                       clip(x, -0.4, 0.6) + swiglu(x, gamma) + norm(x, {1}, true);
    CHECK(distance_from_differences(sum(sin(made)), {x, gamma}, {}, 9) < close_enough);
  }
  // No derivative of the maximum is written.
  Program p("p", Mesh({{"world", 1}}));
  const Value x = p.input("x", f64, {3}, replicated);
  const Value loss = sum(square(softmax(x))) + logsumexp(x, {0});
  const ir::ValueId before = ir::graph_of(p)->size();
  (void)gradients(loss, {x});
  for (ir::ValueId id = before; id < ir::graph_of(p)->size(); ++id)
    CHECK(ir::graph_of(p)->at(id).op != Op::cast);  // of who attains it
}

TEST_CASE("ranks add up once, where layouts say") {
  struct Case {
    const char* name;
    Placement of_w;
    std::function<Value(Matrices&, const Value&)> loss;
    std::vector<Op> collectives;  ///< of the backward pass
  };
  const Case cases[] = {
      {"data parallel: local data, one all_reduce",
       replicated,
       [](Matrices& f, const Value& w) {
         const Value x = f.input("x", {f.n, f.m}, local);
         return sum(all_reduce(sum(square(x * w)), mean)) + 0 * sum(square(w));
       },
       {Op::all_reduce}},
      {"two readers, one all_reduce",
       replicated,
       [](Matrices& f, const Value& w) {
         const Value x = f.input("x", {f.n, f.m}, local);
         return all_reduce(sum(sin(x * w) + x / (square(x) + w + 3)), sum);
       },
       {Op::all_reduce}},
      {"replicated beside sliced: one all_gather",
       replicated,
       [](Matrices& f, const Value& w) {
         return sum(f.input("x", {f.n, f.m}, sliced(1)) * w);
       },
       {Op::all_gather}},
      {"broadcast over a sliced dimension: a reduction, and no collective",
       replicated,
       [](Matrices& f, const Value& w) {
         return sum(f.input("x", {f.n, f.m}, sliced(0)) * w);
       },
       {}},
      {"rows sliced: one all_reduce of the weights' gradient",
       replicated,
       [](Matrices& f, const Value& w) {
         return sum(square(matmul(f.input("x", {f.n, f.n}, sliced(0)),
                                  expand(w, f.input("like", {f.n, f.m}, replicated)))));
       },
       {Op::all_reduce}},
      {"sliced along the contracted dimension: nothing moves",
       sliced(0),
       [](Matrices& f, const Value& w) {
         const Value x = f.input("x", {f.n, f.m}, sliced(1));
         return sum(square(all_reduce(matmul(x, expand_dims(w, {1})), sum)));
       },
       {}},
      {"through all_gather of what all read alike: slices",
       sliced(0),
       [](Matrices& f, const Value& w) {
         return sum(square(all_gather(w)) * f.input("x", {f.m}, replicated));
       },
       {}},
      {"through all_gather to data of each rank's own: reduce_scatter",
       sliced(0),
       [](Matrices& f, const Value& w) {
         return all_reduce(sum(all_gather(w) * f.input("x", {f.n, f.m}, local)), sum);
       },
       {Op::reduce_scatter}},
      {"through reduce_scatter: all_gather",
       local,
       [](Matrices&, const Value& w) { return sum(square(reduce_scatter(w, sum))); },
       {Op::all_gather}},
      {"through a slice: all_gather",
       replicated,
       [](Matrices&, const Value& w) { return sum(square(slice(w))); },
       {Op::all_gather}},
      {"through send: the way back",
       local,
       [](Matrices&, const Value& w) { return sum(all_reduce(sin(send(w)), sum)); },
       {Op::send}},
      {"where all give alike, none moves",
       replicated,
       [](Matrices&, const Value& w) { return all_reduce(sum(as_local(w)), sum); },
       {}},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    Matrices f;
    const Value w = f.input("w", {f.m}, one.of_w);
    const Value loss = one.loss(f, w);
    const ir::ValueId before = ir::graph_of(f.p)->size();
    CHECK(distance_from_differences(loss, {w}, {}, 5) < close_enough);
    INFO(f.p.str());
    std::vector<Op> collectives;
    const ir::Graph& graph = *ir::graph_of(f.p);
    for (ir::ValueId id = before; id < graph.size(); ++id) {
      if (ir::is_collective(graph.at(id).op)) collectives.push_back(graph.at(id).op);
    }
    CHECK(collectives == one.collectives);
  }
}

TEST_CASE("slices inside slices are put together from within") {
  Program p("p", Mesh({{"a", 2}, {"b", 2}}));
  const auto layout = [](Placement a, Placement b) { return Layout::on({{"a", a}, {"b", b}}); };
  const Value x = p.input("x", f64, {8}, layout(replicated, sliced(0)));
  const Value y = p.input("y", f64, {8}, layout(sliced(0), sliced(0)));
  const Value whole = all_gather(x, "b");
  CHECK(distance_from_differences(sum(sin(whole * y)) + sum(square(whole)), {x, y}, {}, 3) <
        close_enough);
}

TEST_CASE("a gradient has the dtype, shape and layout of its value, and a name after it") {
  Program p("p", two);
  const Dim n = p.dim("n");
  const Value w = p.state("w", bf16, {n}, replicated), x = p.input("x", bf16, {n}, local);
  const Value b = p.input("b", f32, {1}, replicated);
  const Value loss = all_reduce(sum(cast(w * x + w, f32) + b), mean);
  const std::vector<Value> made = gradients(loss, {w, b, x});
  CHECK(type_of(made[0]) == "w.grad: bf16[n] replicated");
  CHECK(type_of(made[1]) == "b.grad: f32[1] replicated");
  CHECK(type_of(made[2]) == "x.grad: bf16[n] local");
  // Two readers of w add up in f32, and what they come to is rounded once.
  CHECK(p.str().find("w.grad: cast") == std::string::npos);
  CHECK(gradients(loss, {w})[0].name() == "w.grad.2");
  // A gradient that is another value is one of its own.
  const Value y = p.input("y", f32, {n}, replicated), z = p.input("z", f32, {n}, replicated);
  const std::vector<Value> products = gradients(sum(y * z), {y, z});
  CHECK(products[0].name() == "y.grad");
  CHECK(type_of(products[1]) == "z.grad: f32[n] replicated");
}

TEST_CASE("contributions of fewer dimensions add up with what they broadcast to") {
  struct Case {
    Placement of_row, of_matrix, of_v;
    bool gathers;
    Shape row;
  };
  const Case cases[] = {
      {sliced(0), sliced(0), replicated, false, {6}},
      {sliced(0), sliced(1), replicated, false, {6}},
      {local, sliced(0), replicated, false, {6}},
      {sliced(0), replicated, sliced(0), true, {6}},
      {sliced(1), replicated, sliced(0), true, {1, 6}},
      {local, local, sliced(1), true, {1, 6}},
      {local, replicated, sliced(0), true, {6}},
  };
  for (const Case& one : cases) {
    Program p("p", two);
    const Value v = p.input("v", f64, {4, 6}, one.of_v);
    const Value row = p.input("row", f64, one.row, one.of_row);
    const Value matrix = p.input("matrix", f64, {4, 6}, one.of_matrix);
    const Value read = one.gathers ? all_gather(v) : v;
    const auto total = [](const Value& value) {
      return sum(value.layout()[0] == local ? all_reduce(value, sum) : value);
    };
    const Value by_row = total(read * row), by_matrix = total(read * matrix);
    INFO(p.str());
    CHECK(distance_from_differences(by_row + by_matrix, {v, row, matrix}, {}, 11) < close_enough);
  }
}

TEST_CASE("a program with its gradients is one text, whichever compiler made the library") {
  Program p("mlp", two);
  const Dim B = p.dim("B"), I = p.dim("I"), H = p.dim("H");
  const Value x = p.input("x", bf16, {B, I}, local), y = p.input("y", bf16, {B, 1}, local);
  const Value w1 = p.state("w1", bf16, {I, H}, replicated);
  const Value b1 = p.state("b1", bf16, {H}, replicated);
  const Value w2 = p.state("w2", bf16, {H, 1}, replicated);
  const Value hidden = gelu(matmul(x, w1) + b1).named("hidden");
  const Value error = cast(matmul(hidden, w2) - y, f32).named("error");
  const Value loss = all_reduce(mean(minimum(square(error), 9)), mean).named("loss");
  const std::vector<Value> weights = {w1, b1, w2}, made = gradients(loss, weights);
  for (std::size_t i = 0; i < made.size(); ++i) update(weights[i], weights[i] - 0.1 * made[i]);
  check_golden("tests/golden/gradients.txt", p.str());
}

TEST_CASE("an op of the application's own has the gradient of its definition") {
  const PointwiseOp softplus =
      define_pointwise({"softplus_of_gradients", 1, DTypeRule::floating, 20, "log1p_(exp_(a))",
                        [](double a, double, double) { return std::log1p(std::exp(a)); },
                        [](const std::vector<Value>& x, const Value&, const Value& g) {
                          return std::vector{g * sigmoid(x[0])};
                        }});
  const PointwiseOp none =
      define_pointwise({"none_of_gradients", 1, DTypeRule::floating, 1, "a * 3",
                        [](double a, double, double) { return a * 3; }});
  Matrices f;
  const Value x = f.input("x", {f.n, f.m}, sliced(0));
  CHECK(distance_from_differences(sum(softplus(x)), {x}, {}, 3) < close_enough);
  CHECK_THAT(refusal([&] { (void)gradients(sum(none(x).named("y")), {x}); }),
             EndsWith("'y' (none_of_gradients): no gradient goes through it: it has none; give its "
                      "definition a derivative (coconet/custom_op.h)"));
}

TEST_CASE("what has no gradient is refused by a sentence, and leaves the program as it was") {
  Flat f;
  const std::string in = "in program 'p', gradients: ";
  const auto refused = [&](const Value& loss, const std::vector<Value>& of) {
    const std::string before = f.p.str();
    const std::string message = refusal([&] { (void)gradients(loss, of); });
    CHECK(f.p.str() == before);
    return message;
  };
  const Value w3 = f.p.state("w3", f32, {f.n}, replicated);
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  const Value loss = sum(f.w * f.w).named("loss");
  CHECK(refused(f.w.named("w"), {f.w}) ==
        in +
            "'w' is f32[n] replicated; the loss must have one element: take the sum or the mean of "
            "it");
  CHECK(refused(sum(f.g).named("own"), {f.w}) ==
        in + "'own' is f32[] local; the loss must be one number for all ranks: all_reduce it along "
             "'world', sum or mean");
  CHECK_THAT(refused(sum(i), {f.w}), EndsWith("the loss must be of floats"));
  CHECK_THAT(refused(f.lr, {f.w}), EndsWith("the loss is a tensor of one element"));
  CHECK(refused(Value(1), {f.w}) ==
        "gradients was given a constant as the loss; it takes a tensor");
  CHECK_THAT(refused(Value(), {f.w}), Contains("was given an empty Value"));
  CHECK(refused(loss, {w3}) ==
        "in program 'p', the gradient of 'loss' with respect to 'w3': the loss does not depend on "
        "'w3'");
  CHECK(refused(loss, {i}) == in + "'i' is i32[n] replicated; only floats have gradients");
  CHECK_THAT(refused(loss, {f.lr}), Contains("'lr' is a number; gradients are of tensors"));
  CHECK_THAT(refused(loss, {Value(2)}), EndsWith("a constant has no gradient"));
  CHECK_THAT(refused(loss, {Value()}), EndsWith("has not been assigned"));
  const Value later = (f.w * 2).named("later");
  CHECK_THAT(refused(loss, {later}), EndsWith("depend on 'later', which is made after it"));
  CHECK(refused(sum(all_reduce(reduce(f.g, sum).named("rooted"), sum)), {f.g}) ==
        "in program 'p', 'rooted' (reduce): no gradient goes through it: only the root has its "
        "result; use all_reduce");
  CHECK_THAT(refused(sum(broadcast(f.g)), {f.g}), Contains("only the root's operand matters"));
  for (const Reduction reduction : {Reduction::max, Reduction::min, Reduction::prod}) {
    CHECK_THAT(refused(sum(all_reduce(f.g, reduction)), {f.g}),
               Contains("which ranks attain a " + std::string(to_string(reduction))));
  }
  const Value a = f.p.input("a", f32, {4, f.n}, sliced(1)),
              b = f.p.input("b", f32, {f.n, 4}, sliced(0));
  const Value share = matmul(a, b).named("share");
  const Value own = f.p.input("c", f32, {4, 4}, local);
  CHECK_THAT(refused(sum(all_reduce(share * own, sum)), {a}),
             EndsWith("'share' (matmul): no gradient goes through it: it has each rank's share of "
                      "the products, and what reads it makes something of each rank's own of that; "
                      "all_reduce 'share' first"));
  Program other("other", two);
  const Value elsewhere = other.input("x", f32, {1}, replicated);
  CHECK_THAT(refused(loss, {elsewhere}), EndsWith("'x' is of program 'other', which is another "
                                                  "Program"));
}
