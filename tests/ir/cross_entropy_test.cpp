// Cross entropy: its values, its gradient, and what it refuses.
#include <catch2/catch.hpp>

#include <cmath>

#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr int rows = 4, classes = 3;
const ir::Data logits = {1, 2, 0.5, -1, 0, 3, 2, 2, 2, 0.25, -2, 1};

/// The share of class `c` in row `r`.
double share(int r, int c) {
  double total = 0;
  for (int other = 0; other < classes; ++other) total += std::exp(logits[r * classes + other]);
  return std::exp(logits[r * classes + c]) / total;
}

struct Result {
  double loss;
  ir::Data gradient;  ///< with respect to the logits
};

/// On two ranks, which slice the logits along `dim`, or not where that is -1.
Result cross_entropy_of(const ir::Data& labels, const CrossEntropyOptions& options = {},
                        int dim = -1) {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f64, {rows, classes}, replicated);
  const Value y = p.input("y", i64, {rows}, replicated);
  const Value loss = dim < 0 ? cross_entropy(x, y, options)
                             : cross_entropy(slice(x, dim), dim == 0 ? slice(y) : y, options);
  CHECK(type_of(loss).ends_with(": f64[] replicated"));
  p.output("loss", loss);
  p.output("gradient", gradients(loss, {x})[0]);
  const Program parsed = Program::parse(p.json());
  ir::Reference reference(*ir::graph_of(parsed), {});
  reference.set("x", {logits, logits});
  reference.set("y", {labels, labels});
  reference.run({});
  return {reference.get("loss")[1][0], reference.get("gradient")[1]};
}

}  // namespace

TEST_CASE("cross entropy is the mean of what the labels' classes cost, whatever is sliced") {
  for (const int dim : {-1, 0, 1}) {
    INFO("sliced along " << dim);
    const auto [loss, gradient] = cross_entropy_of({1, 2, 0, -100}, {}, dim);
    CHECK(loss ==
          Approx(-(std::log(share(0, 1)) + std::log(share(1, 2)) + std::log(share(2, 0))) / 3));
    const int labels[] = {1, 2, 0};
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < classes; ++c) {
        const double expected = r == 3 ? 0 : (share(r, c) - (c == labels[r] ? 1 : 0)) / 3;
        CHECK(gradient[r * classes + c] == Approx(expected).margin(1e-15));
      }
    }
  }
}

TEST_CASE("label smoothing gives all classes a share of the target") {
  const auto [loss, gradient] = cross_entropy_of({-1, 7, -1, 7}, {.ignored_label = -1});
  CHECK(std::isnan(loss));  // 7 is no class
  const double smoothing = 0.3;
  const Result smooth =
      cross_entropy_of({-1, 2, -1, -1}, {.label_smoothing = smoothing, .ignored_label = -1});
  double even = 0;
  for (int c = 0; c < classes; ++c) even -= std::log(share(1, c)) / classes;
  CHECK(smooth.loss == Approx((1 - smoothing) * -std::log(share(1, 2)) + smoothing * even));
  for (int c = 0; c < classes; ++c) {
    const double target = smoothing / classes + (c == 2 ? 1 - smoothing : 0);
    CHECK(smooth.gradient[classes + c] == Approx(share(1, c) - target));
  }
}

TEST_CASE("cross entropy of nothing is 0") {
  const auto [loss, gradient] = cross_entropy_of({-100, -100, -100, -100});
  CHECK(loss == 0);
  CHECK(gradient == ir::Data(rows * classes, 0.0));
}

TEST_CASE("cross entropy of 16 bits is computed and returned in f32") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", bf16, {2, 5, 7}, sliced(0));
  const Value y = p.input("y", i32, {2, 5}, sliced(0));
  CHECK(type_of(cross_entropy(x, y)).ends_with(": f32[] replicated"));
}

TEST_CASE("cross entropy says which shapes and dtypes it takes") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {4, 3}, replicated);
  const Value y = p.input("y", i32, {4}, replicated);
  const Value short_y = p.input("short_y", i32, {3}, replicated);
  const auto refused = [](const Value& of, const Value& labels,
                          const CrossEntropyOptions& options = {}) {
    return refusal([&] { (void)cross_entropy(of, labels, options); });
  };
  const std::string start = "in program 'p', cross_entropy: ";
  CHECK(refused(y, y) ==
        start + "y: i32[4] replicated; logits are floats, a row of one for each class");
  CHECK(refused(x, short_y) ==
        start +
            "short_y: i32[3] replicated; labels are numbers of classes in i32 or i64, one for "
            "each row of x: f32[4, 3] replicated");
  CHECK(refused(x, sum(x, {1})).ends_with("one for each row of x: f32[4, 3] replicated"));
  CHECK(refused(x, 1) == start + "the labels must be a tensor of the logits' program");
  CHECK(refused(x, Value()) ==
        "cross_entropy was given an empty Value, which was declared and has not been assigned");
  CHECK(refused(1, y) ==
        "cross_entropy takes a tensor of a program, but its operand is the constant 1.000000");
  const Value own = p.input("own", i32, {4}, local);
  const Value classes_here = p.input("classes_here", f32, {4, 3}, sliced(1));
  const std::string before = p.str();
  CHECK(refused(classes_here, own) ==
        start +
            "along axis 'world' classes_here: f32[4, 3] sliced(1) and own: i32[4] local do not "
            "combine; all_gather one of them");
  CHECK(refused(x, y, {.ignored_label = std::int64_t{1} << 40}) ==
        start + "ignored_label is 1099511627776; labels of i32 go up to 2147483647");
  CHECK(p.str() == before);
  CHECK(refused(x, y, {.label_smoothing = 1.5}) ==
        start + "label_smoothing is 1.5; it must be in [0, 1]");
}
