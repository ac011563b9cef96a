// Softmax and layer norm equal the reference over sliced and whole dimensions, and formulas written
// by hand.
#include <cmath>

#include "ir/access.h"
#include "ir/reference/reference.h"
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

const std::vector<Sizes> row_sizes = {
    {{"B", 1}, {"H", 1}}, {{"B", 3}, {"H", 2}}, {{"B", 5}, {"H", 67}}, {{"B", 17}, {"H", 3}}};

Program normalisations(int ranks, Placement placement, DType dtype) {
  Program program("normalisations", Mesh({{"world", ranks}}));
  const Dim B = program.dim("B"), H = program.dim("H");
  const Value x = program.input("x", dtype, {B, H}, placement);
  const Value gamma = program.state("gamma", dtype, {H}, replicated);
  const Value beta = program.input("beta", dtype, {H}, replicated);
  program.output("softmax_rows", softmax(x).named("softmax_rows"));
  program.output("softmax_columns", softmax(x, 0).named("softmax_columns"));
  program.output("norm_rows", layer_norm(x).named("norm_rows"));
  program.output("norm_columns", layer_norm(x, 0, 1e-3).named("norm_columns"));
  program.output("affine", layer_norm(x, gamma, beta).named("affine"));
  program.output("rms", rms_norm(x, gamma).named("rms"));
  program.output("total", logsumexp(x, {1}).named("total"));
  program.output("clipped", clip(x, -0.5, beta).named("clipped"));
  program.output("gated", swiglu(x, gamma).named("gated"));
  return program;
}

/// What the reference makes of one row, in f64.
template <class Body>
ir::Data of_row(const ir::Data& row, const Body& body) {
  Program program("row", Mesh({{"world", 1}}));
  const Value x = program.input("x", f64, {1, static_cast<int>(row.size())}, replicated);
  program.output("y", body(x));
  ir::Reference reference(*ir::graph_of(program), {});
  reference.set("x", {row});
  reference.run({});
  return reference.get("y")[0];
}

}  // namespace

TEST_CASE("softmax is the exponentials' share of their sum, however large the values") {
  const ir::Data shares =
      of_row({1000, 1000 + std::log(3.0)}, [](const Value& x) { return softmax(x); });
  CHECK(shares[0] == Approx(0.25));
  CHECK(shares[1] == Approx(0.75));
}

TEST_CASE("layer norm makes mean 0 and variance 1, but for epsilon") {
  const ir::Data row = of_row({1, 3}, [](const Value& x) { return layer_norm(x, -1, 3.0); });
  CHECK(row[0] == Approx(-0.5));  // -1 / sqrt(1 + 3)
  CHECK(row[1] == Approx(0.5));
  const ir::Data affine =
      of_row({1, 3}, [](const Value& x) { return layer_norm(x, 10, 7, -1, 3.0); });
  CHECK(affine[0] == Approx(2));
  CHECK(affine[1] == Approx(12));
}

TEST_CASE("rms_norm, logsumexp, clip and swiglu are their formulas") {
  const ir::Data scaled =
      of_row({1, 7}, [](const Value& x) { return rms_norm(x, 10, -1, 0.0); });  // the root is 5
  CHECK(scaled[0] == Approx(2));
  CHECK(scaled[1] == Approx(14));
  const auto total = [](const Value& x) { return logsumexp(x, {1}); };
  CHECK(of_row({1000, 1000 + std::log(3.0)}, total)[0] == Approx(1000 + std::log(4.0)));
  CHECK(of_row({-HUGE_VAL, -HUGE_VAL}, total)[0] == -HUGE_VAL);
  CHECK(of_row({0, HUGE_VAL}, total)[0] == HUGE_VAL);
  const ir::Data kept = of_row({1, 1}, [](const Value& x) { return logsumexp(x, {-1}, true); });
  CHECK(kept[0] == Approx(1 + std::log(2.0)));
  const ir::Data clipped =
      of_row({-3, 0.25, 3, std::nan("")}, [](const Value& x) { return clip(x, -1, 2); });
  CHECK(ir::Data(clipped.begin(), clipped.end() - 1) == ir::Data{-1, 0.25, 2});
  CHECK(std::isnan(clipped[3]));
  CHECK(of_row({2}, [](const Value& x) { return swiglu(x, 3 * x); })[0] ==
        Approx(2 / (1 + std::exp(-2.0)) * 6));
}

TEST_CASE("normalisations equal the reference for every layout and number of ranks") {
  for (const int ranks : {1, 2, 3}) {
    for (const Placement placement : {replicated, local, sliced(0), sliced(1)})
      require_conforms(normalisations(ranks, placement, f32), Schedule("none"), ranks, row_sizes);
  }
}

TEST_CASE("normalisations equal the reference for every float dtype over slices") {
  for (const DType dtype : {f64, f16, bf16})
    require_conforms(normalisations(2, sliced(1), dtype), Schedule("none"), 2, row_sizes);
}

TEST_CASE("normalisations keep the dtype and layout of what they take") {
  for (const DType dtype : all_dtypes) {
    if (!is_float(dtype)) continue;
    Program program("types", Mesh({{"world", 2}}));
    const Value x = program.input("x", dtype, {4, 6}, sliced(1));
    const Value gamma = program.input("gamma", dtype, {6}, replicated);
    for (const Value& y : {softmax(x), layer_norm(x), layer_norm(x, gamma, gamma),
                           rms_norm(x, gamma), clip(x, -1, 1), swiglu(x, gamma)}) {
      CHECK(y.dtype() == dtype);
      CHECK(y.shape() == x.shape());
      CHECK(y.layout() == x.layout());
    }
  }
}
