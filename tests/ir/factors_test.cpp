// Which dimension of a result each dimension of an operand becomes.
#include "ir/factors.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "coconet/mesh.h"
#include "coconet/program.h"
#include "ir/access.h"

using namespace coconet;

namespace {

/// "passes 0, contracted"
std::string text_of(const ir::Factors& factors) {
  std::string text;
  for (const auto& [kind, of_result, term, begin, step] : factors) {
    constexpr std::string_view names[] = {"passes",  "repeats",   "contracted",
                                          "indexed", "looked up", "regrouped"};
    if (!text.empty()) text += ", ";
    text += names[static_cast<std::size_t>(kind)];
    if (of_result >= 0) text += fmt::format(" {}", of_result);
    if (term > 0) text += fmt::format(" {}", term);
    if (begin > 0 || step > 1) text += fmt::format(" from {} by {}", begin, step);
  }
  return text;
}

/// The factors of operand `index` of `value`.
std::string factors(const Value& value, std::size_t index) {
  const ir::Graph& graph = *ir::graph_of(value);
  return text_of(ir::factors_of(graph, graph.at(ir::id_of(value)), index));
}

struct Tensors {
  Program program{"p", Mesh({{"world", 2}})};
  Dim m = program.dim("m"), n = program.dim("n"), k = program.dim("k");
  Value tensor(const char* name, const Shape& shape) {
    return program.input(name, f32, shape, replicated);
  }
};

}  // namespace

TEST_CASE("operands of elementwise ops are aligned at the right, and extents of 1 repeat") {
  Tensors f;
  const Value sum = f.tensor("x", {f.m, f.n}) + f.tensor("row", {f.n});
  CHECK(factors(sum, 0) == "passes 0, passes 1");
  CHECK(factors(sum, 1) == "passes 1");
  CHECK(factors(f.tensor("y", {f.m, f.n}) * f.tensor("column", {f.m, 1}), 1) ==
        "passes 0, repeats 1");
  CHECK(factors(f.tensor("one", {1, f.n}) - f.tensor("other", {1, f.n}), 0) ==
        "passes 0, passes 1");
  CHECK(factors(repeat(f.tensor("lr", {f.program.buffers(f.n)}), f.n), 0) == "indexed 0");
}

TEST_CASE("a transpose passes each dimension on to its place, and kernels read through it") {
  Tensors f;
  const Value x = f.tensor("x", {f.m, f.n, f.k});
  const Value turned = transpose(x, {2, 0, -2});
  CHECK(turned.shape() == Shape{f.k, f.m, f.n});
  CHECK(factors(turned, 0) == "passes 1, passes 2, passes 0");
  const ir::Graph& graph = *ir::graph_of(turned);
  const auto through = [&](const Value& view, const Shape& domain) {
    return text_of(ir::factors_through(graph, graph.at(ir::id_of(view)), domain));
  };
  CHECK(through(turned, {2, f.k, f.m, f.n}) == "passes 2, passes 3, passes 1");
  const Value column = transpose(f.tensor("row", {1, f.n}), {1, 0});
  CHECK(through(column, {f.n, f.m}) == "repeats 1, passes 0");
}

TEST_CASE("reductions contract, and keep what they are told to keep") {
  Tensors f;
  const Value x = f.tensor("x", {f.m, f.n, f.k});
  CHECK(factors(sum(x, {1}), 0) == "passes 0, contracted, passes 1");
  CHECK(factors(sum(x, {1}, true), 0) == "passes 0, contracted 1, passes 2");
  CHECK(factors(sum(x), 0) == "contracted, contracted, contracted");
}

TEST_CASE("matmuls contract the one dimension, whether or not an operand is transposed") {
  Tensors f;
  const Value a = f.tensor("a", {f.m, f.k}), b = f.tensor("b", {f.k, f.n});
  CHECK(factors(matmul(a, b), 0) == "passes 0, contracted");
  CHECK(factors(matmul(a, b), 1) == "contracted, passes 1");
  const Value turned = matmul(f.tensor("at", {f.k, f.m}), f.tensor("bt", {f.n, f.k}), true, true);
  CHECK(factors(turned, 0) == "contracted, passes 0");
  CHECK(factors(turned, 1) == "passes 1, contracted");
  const Value batched = matmul(f.tensor("c", {4, f.m, f.k}), f.tensor("d", {1, f.k, f.n}));
  CHECK(factors(batched, 0) == "passes 0, passes 1, contracted");
  CHECK(factors(batched, 1) == "repeats 0, contracted, passes 2");
  CHECK(factors(matmul(f.tensor("e", {4, f.m, f.k}), b), 1) == "contracted, passes 2");
}
