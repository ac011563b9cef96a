// The reference interpreter against loops written by hand.
#include "ir/reference/reference.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "coconet/error.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "refusal.h"

using namespace coconet;
using ir::Data;
using ir::RankData;
using ir::Reference;

namespace {

// Distinct numbers of both signs that f16 holds exactly.
double sample(std::int64_t index, int rank) {
  return static_cast<double>((index * 7 + rank * 3) % 23) - 11;
}

// The parts of a row-major tensor with `global` extents under the layout of `name`; local ranks get
// values of their own.
RankData parts_of(const Program& program, const Reference& reference, const std::string& name,
                  const ir::Extents& global) {
  const ir::ValueId id = ir::graph_of(program)->require(name);
  RankData parts;
  for (int rank = 0; rank < program.mesh().size(); ++rank) {
    int seed = 0;
    const auto& layout = ir::graph_of(program)->at(id).layout;
    for (std::size_t axis = 0; axis < layout.size(); ++axis) {
      if (layout[axis] == local)
        seed = seed * 10 + 1 + program.mesh().coordinate(rank, static_cast<int>(axis));
    }
    const ir::Part part = reference.part(id, rank);
    const bool matrix = global.size() == 2;
    const std::int64_t columns = matrix ? global[1] : 1;
    Data& data = parts.emplace_back();
    for (std::int64_t i = 0; i < part.extent[0]; ++i) {
      for (std::int64_t j = 0; j < (matrix ? part.extent[1] : 1); ++j) {
        const std::int64_t index = (part.begin[0] + i) * columns + (matrix ? part.begin[1] + j : 0);
        data.push_back(sample(index, seed));
      }
    }
  }
  return parts;
}

const Mesh three({{"world", 3}});

}  // namespace

TEST_CASE("Adam on three ranks is the hand-written loop") {
  for (const std::int64_t n : {1, 2, 7}) {
    Program p("adam", three);
    const Dim size = p.dim("n");
    const Value g = p.input("g", f32, {size}, local);
    const Value w = p.state("w", f32, {size}, replicated);
    const Value m = p.state("m", f32, {size}, sliced(0));
    const Value v = p.state("v", f32, {size}, replicated);
    const Value lr = p.scalar("lr");
    const Value t = p.scalar("t");
    const Value avg = reduce_scatter(g, mean).named("avg");
    const Value m1 = update(m, 0.9 * m + 0.1 * avg);
    const Value whole = all_gather(avg);
    const Value v1 = update(v, 0.999 * v + 0.001 * whole * whole);
    update(w,
           w - lr * (all_gather(m1) / (1 - pow(0.9, t))) / (sqrt(v1 / (1 - pow(0.999, t))) + 1e-8));

    Reference reference(*ir::graph_of(p), {{"n", n}});
    const RankData gradients = parts_of(p, reference, "g", {n});
    reference.set("g", gradients);
    Data weights(static_cast<std::size_t>(n), 0.5);
    reference.set("w", RankData(3, weights));
    Data first(weights.size(), 0);
    Data second(weights.size(), 0);
    for (int step = 1; step <= 3; ++step) {
      reference.run({{"lr", 0.01}, {"t", step}});
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const auto f = [](double value) { return static_cast<double>(static_cast<float>(value)); };
        const double average = f((gradients[0][i] + gradients[1][i] + gradients[2][i]) / 3);
        first[i] = f(f(0.9 * first[i]) + f(0.1 * average));
        second[i] = f(f(0.999 * second[i]) + f(f(0.001 * average) * average));
        const double corrected = f(first[i] / (1 - std::pow(0.9, step)));
        const double root = f(f(std::sqrt(f(second[i] / (1 - std::pow(0.999, step))))) + 1e-8);
        weights[i] = f(weights[i] - f(f(0.01 * corrected) / root));
      }
      for (std::size_t rank = 0; rank < 3; ++rank) CHECK(reference.get("w")[rank] == weights);
      Data moments;
      for (const Data& block : reference.get("m"))
        moments.insert(moments.end(), block.begin(), block.end());
      CHECK(moments == first);
    }
  }
}

TEST_CASE("all_to_all moves elements to the ranks that hold their columns") {
  for (const std::int64_t n : {1, 4, 7}) {
    Program p("reshard", three);
    const Dim rows = p.dim("n");
    const Value x = p.input("x", f64, {rows, 5}, sliced(0));
    p.output("columns", all_to_all(x, 1));
    Reference reference(*ir::graph_of(p), {{"n", n}});
    ir::RankData in;
    const std::int64_t block = (n + 2) / 3;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      in.emplace_back();
      for (std::int64_t i = std::min(n, rank * block); i < std::min(n, (rank + 1) * block); ++i) {
        for (int j = 0; j < 5; ++j) in.back().push_back(static_cast<double>(10 * i + j));
      }
    }
    reference.set("x", in);
    reference.run({});
    for (int rank = 0; rank < 3; ++rank) {  // which hold 2, 2 and 1 columns
      INFO("n = " << n << ", rank " << rank);
      std::vector<double> expected;
      for (std::int64_t i = 0; i < n; ++i) {
        for (int j = 2 * rank; j < std::min(5, 2 * rank + 2); ++j)
          expected.push_back(static_cast<double>(10 * i + j));
      }
      CHECK(reference.get("columns")[rank] == expected);
    }
  }
}

TEST_CASE("collectives do what they say for sizes that do not divide") {
  for (const std::int64_t n : {1, 2, 7}) {
    Program p("collectives", three);
    const Dim size = p.dim("n");
    const Value x = p.input("x", f64, {size}, local);
    p.output("reduced", all_reduce(x, sum));
    p.output("largest", all_reduce(x, max));
    p.output("smallest", all_reduce(x, min));
    p.output("multiplied", all_reduce(x, prod));
    const Value slices = reduce_scatter(x, mean);
    p.output("slices", slices);
    p.output("gathered", all_gather(slices));
    p.output("on_one", reduce(x, sum, 1));
    p.output("from_two", broadcast(x, 2));
    p.output("from_before", send(x));
    p.output("from_after", send(x, -1));
    p.output("from_far", send(x, 2));

    Reference reference(*ir::graph_of(p), {{"n", n}});
    const RankData in = parts_of(p, reference, "x", {n});
    reference.set("x", in);
    reference.run({});
    const auto count = static_cast<std::size_t>(n);
    const std::size_t block = (count + 2) / 3;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      INFO("n = " << n << ", rank " << rank);
      for (std::size_t i = 0; i < count; ++i) {
        const double a = in[0][i];
        const double b = in[1][i];
        const double c = in[2][i];
        CHECK(reference.get("reduced")[rank][i] == a + b + c);
        CHECK(reference.get("largest")[rank][i] == std::max({a, b, c}));
        CHECK(reference.get("smallest")[rank][i] == std::min({a, b, c}));
        CHECK(reference.get("multiplied")[rank][i] == a * b * c);
        CHECK(reference.get("gathered")[rank][i] == (a + b + c) / 3);
        CHECK(reference.get("on_one")[rank][i] == (rank == 1 ? a + b + c : 0));
        CHECK(reference.get("from_two")[rank][i] == c);
        CHECK(reference.get("from_before")[rank][i] == (rank == 0 ? 0 : in[rank - 1][i]));
        CHECK(reference.get("from_after")[rank][i] == (rank == 2 ? 0 : in[rank + 1][i]));
        CHECK(reference.get("from_far")[rank][i] == (rank == 2 ? a : 0));
      }
      const Data& slice = reference.get("slices")[rank];
      const std::size_t begin = std::min(count, rank * block);
      CHECK(slice.size() == std::min(block, count - begin));
      for (std::size_t i = 0; i < slice.size(); ++i) {
        CHECK(slice[i] == (in[0][begin + i] + in[1][begin + i] + in[2][begin + i]) / 3);
      }
    }
  }
}

TEST_CASE("a slice is each rank's block, and its reduction that of the whole") {
  Program p("blocks", three);
  const Value x = p.input("x", f32, {5, 7}, replicated);
  p.output("block", slice(x, 1).named("block"));
  p.output("rows", sum(slice(x, 1), {1}).named("rows"));
  Reference reference(*ir::graph_of(p), {});
  reference.set("x", parts_of(p, reference, "x", {5, 7}));
  reference.run({});
  const int widths[] = {3, 3, 1};
  for (int rank = 0; rank < 3; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    Data block;
    Data rows(5, 0);
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < widths[rank]; ++j) block.push_back(sample(i * 7 + rank * 3 + j, 0));
      for (int j = 0; j < 7; ++j) rows[static_cast<std::size_t>(i)] += sample(i * 7 + j, 0);
    }
    CHECK(reference.get("block")[at] == block);
    CHECK(reference.get("rows")[at] == rows);
  }
}

TEST_CASE("an operand that is broadcast is read at the global index of a slice") {
  Program p("bias", three);
  const Value x = p.input("x", f32, {5, 7}, sliced(1));
  const Value row = p.input("row", f32, {7}, replicated);
  const Value column = p.input("column", f32, {5, 1}, replicated);
  const Value row_slice = p.input("row_slice", f32, {1, 7}, sliced(1));
  p.output("y", x + 2 * row - column * row_slice);

  Reference reference(*ir::graph_of(p), {});
  reference.set("x", parts_of(p, reference, "x", {5, 7}));
  reference.set("row", parts_of(p, reference, "row", {7}));
  reference.set("column", parts_of(p, reference, "column", {5, 1}));
  reference.set("row_slice", parts_of(p, reference, "row_slice", {1, 7}));
  reference.run({});
  const int widths[] = {3, 3, 1};
  for (int rank = 0; rank < 3; ++rank) {
    const Data& y = reference.get("y")[static_cast<std::size_t>(rank)];
    REQUIRE(y.size() == static_cast<std::size_t>(5 * widths[rank]));
    std::size_t n = 0;
    for (int i = 0; i < 5; ++i) {
      for (int j = rank * 3; j < rank * 3 + widths[rank]; ++j) {
        CHECK(y[n++] == sample(i * 7 + j, 0) + 2 * sample(j, 0) - sample(i, 0) * sample(j, 0));
      }
    }
  }
}

TEST_CASE("slices of two mesh axes take their own rows and columns") {
  Program p("grid", Mesh({{"pp", 2}, {"tp", 3}}));
  const Value x = p.input("x", f32, {3, 5}, Layout::on({{"pp", sliced(0)}, {"tp", local}}));
  const Value w = p.state("w", f32, {3, 5}, Layout::on({{"tp", sliced(1)}}));
  const Value scattered = reduce_scatter(x, sum, 1, "tp").named("scattered");
  p.output("scattered", scattered);
  p.output("whole", all_gather(all_gather(w + scattered, "tp"), "pp"));
  update(w, all_gather(scattered, "pp"));

  Reference reference(*ir::graph_of(p), {});
  reference.set("x", parts_of(p, reference, "x", {3, 5}));
  reference.set("w", parts_of(p, reference, "w", {3, 5}));
  reference.run({});
  const auto total = [](std::int64_t index) {
    return sample(index, 1) + sample(index, 2) + sample(index, 3);
  };
  for (int rank = 0; rank < 6; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const ir::Part part = reference.part(ir::graph_of(p)->require("scattered"), rank);
    CHECK(part.begin == ir::Extents{rank / 3 * 2, rank % 3 * 2});
    CHECK(part.extent == ir::Extents{rank / 3 == 0 ? 2 : 1, rank % 3 == 2 ? 1 : 2});
    std::size_t n = 0;
    for (std::int64_t i = 0; i < part.extent[0]; ++i) {
      for (std::int64_t j = 0; j < part.extent[1]; ++j) {
        CHECK(reference.get("scattered")[at][n++] ==
              total((part.begin[0] + i) * 5 + part.begin[1] + j));
      }
    }
    for (std::int64_t k = 0; k < 15; ++k) {
      CHECK(reference.get("whole")[at][static_cast<std::size_t>(k)] == sample(k, 0) + total(k));
    }
    const ir::Part held = reference.part(ir::graph_of(p)->require("w"), rank);
    n = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < held.extent[1]; ++j) {
        CHECK(reference.get("w")[at][n++] == total(i * 5 + held.begin[1] + j));
      }
    }
  }
}

TEST_CASE("a reduction over a sliced dimension is the reduction of the whole, on every rank") {
  for (const std::int64_t n : {1, 2, 7}) {
    Program p("reductions", three);
    const Dim size = p.dim("n");
    const Value x = p.input("x", f64, {size, 4}, sliced(0));
    p.output("total", sum(x));
    p.output("columns", max(x, {0}));
    p.output("rows", min(x, {1}, true));
    p.output("length", norm(x));
    p.output("average", mean(x));
    p.output("product", prod(x, {-2}));

    Reference reference(*ir::graph_of(p), {{"n", n}});
    reference.set("x", parts_of(p, reference, "x", {n, 4}));
    reference.run({});
    double total = 0;
    double squares = 0;
    Data largest(4, -100);
    Data product(4, 1);
    Data smallest(static_cast<std::size_t>(n), 100);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) {
        const double value = sample(i * 4 + j, 0);
        total += value;
        squares += value * value;
        double& column = largest[static_cast<std::size_t>(j)];
        column = std::max(column, value);
        product[static_cast<std::size_t>(j)] *= value;
        double& row = smallest[static_cast<std::size_t>(i)];
        row = std::min(row, value);
      }
    }
    Data rows;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CHECK(reference.get("total")[rank] == Data{total});
      CHECK(reference.get("columns")[rank] == largest);
      CHECK(reference.get("product")[rank] == product);
      CHECK(reference.get("length")[rank] == Data{std::sqrt(squares)});
      CHECK(reference.get("average")[rank] == Data{total / static_cast<double>(4 * n)});
      const Data& block = reference.get("rows")[rank];
      rows.insert(rows.end(), block.begin(), block.end());
    }
    CHECK(rows == smallest);
  }
}

TEST_CASE("a reduction of a local value stays with its rank") {
  Program p("own", three);
  p.output("total", sum(p.input("x", f32, {2}, local)));
  Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{1, 2}, {3, 4}, {5, 6}});
  reference.run({});
  CHECK(reference.get("total") == RankData{{3}, {7}, {11}});
}

TEST_CASE("a partial reduction is combined by the all_reduce after it") {
  Program p("norms", three);
  const Value x = p.input("x", f32, {2}, sliced(0));
  ir::Node node;
  node.op = ir::Op::reduction;
  node.operands = {ir::id_of(x)};
  node.attributes.dims = {0};
  node.attributes.partial = true;
  node.attributes.reduction = Reduction::max;
  const Value partial = ir::value_of(ir::graph_of(p), ir::append(*ir::graph_of(p), node));
  p.output("largest", all_reduce(partial, max));
  Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{-5}, {-3}, {}});
  reference.run({});
  CHECK(reference.get("largest") == RankData{{-3}, {-3}, {-3}});
}

TEST_CASE("wrong use of the reference is refused with the reason") {
  Program p("step", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {3}, sliced(0));
  const Value y = (x * p.scalar("lr")).named("y");
  p.output("y", y);
  Reference reference(*ir::graph_of(p), {});
  CHECK(refusal<ProgramError>([&] { reference.set("xx", {}); }) ==
        "program 'step' has no value 'xx'; did you mean 'x'?");
  CHECK(refusal<ProgramError>([&] { reference.set("y", {}); }) ==
        "'y' of program 'step' is computed; only inputs and states are set");
  CHECK(refusal<ProgramError>([&] {
          reference.set("x", {{1, 2, 3}});
        }) == "'x' was given 1 parts; the mesh {world: 2} has 2 ranks");
  CHECK(refusal<ProgramError>([&] {
          reference.set("x", {{1, 2}, {3, 4}});
        }) == "'x' was given 2 elements on rank 1; that rank holds 1");
  CHECK(refusal<ProgramError>([&] {
          reference.run({{"lr", 1}});
        }) == "program 'step' needs the input 'x', which was not set");
  reference.set("x", {{1, 2}, {3}});
  CHECK(refusal<ProgramError>([&] { reference.run({}); }) ==
        "program 'step' needs the scalar 'lr', which was not given");
  CHECK(refusal<ProgramError>([&] { (void)reference.get("y"); }) ==
        "output 'y' of program 'step' has no value before the first step");
  CHECK(refusal<ProgramError>([&] { (void)reference.get("z"); }) ==
        "program 'step' has no state or output 'z'");
  reference.run({{"lr", 2}});
  CHECK(reference.get("y") == RankData{{2, 4}, {6}});
}
