// The made-up data of runs and checks: an element has the same value in every layout.
#include "cli/data.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "coconet/program.h"
#include "ir/access.h"

using namespace coconet;

namespace {

/// A program with one tensor "x", an input or a state, of 7 x 5 elements over 3 ranks.
Program with_tensor(bool is_state, Layout layout, DType dtype = f64) {
  Program program("data", Mesh({{"world", 3}}));
  if (is_state) {
    program.state("x", dtype, {7, 5}, layout);
  } else {
    program.input("x", dtype, {7, 5}, layout);
  }
  return program;
}

ir::Data data_of(const Program& program, int rank, std::uint64_t iteration = 0,
                 std::uint64_t seed = 1) {
  const ir::Graph& graph = *ir::graph_of(program);
  return cli::test_data(graph, graph.require("x"), {}, rank, seed, iteration);
}

}  // namespace

TEST_CASE("slices of a tensor hold what the whole tensor holds there") {
  const ir::Data whole = data_of(with_tensor(true, replicated), 0);
  REQUIRE(whole.size() == 35);
  for (const int dim : {0, 1}) {
    const Program program = with_tensor(true, sliced(dim));
    const ir::Graph& graph = *ir::graph_of(program);
    for (int rank = 0; rank < 3; ++rank) {
      const ir::Part part = ir::part_of(graph.mesh, {sliced(dim)}, {7, 5}, rank);
      const ir::Data slice = data_of(program, rank);
      REQUIRE(slice.size() == static_cast<std::size_t>(part.count()));
      std::size_t i = 0;
      for (std::int64_t row = 0; row < part.extent[0]; ++row) {
        for (std::int64_t column = 0; column < part.extent[1]; ++column) {
          const auto place = (part.begin[0] + row) * 5 + part.begin[1] + column;
          CHECK(slice[i++] == whole[static_cast<std::size_t>(place)]);
          CHECK(cli::position_in(part, {part.begin[0] + row, part.begin[1] + column}) ==
                static_cast<std::int64_t>(i) - 1);
        }
      }
    }
  }
}

TEST_CASE("replicated data are the same on every rank, local data are not") {
  CHECK(data_of(with_tensor(false, replicated), 0) == data_of(with_tensor(false, replicated), 2));
  CHECK(data_of(with_tensor(false, local), 0) != data_of(with_tensor(false, local), 2));
}

TEST_CASE("another iteration changes inputs only, another seed changes all") {
  CHECK(data_of(with_tensor(false, local), 0, 0) != data_of(with_tensor(false, local), 0, 1));
  CHECK(data_of(with_tensor(true, local), 0, 0) == data_of(with_tensor(true, local), 0, 1));
  CHECK(data_of(with_tensor(true, local), 0, 0, 1) != data_of(with_tensor(true, local), 0, 0, 2));
}

TEST_CASE("values are neither large nor tiny") {
  for (const double x : data_of(with_tensor(false, local), 1))
    CHECK((std::fabs(x) >= 0.125 && std::fabs(x) < 1));
  for (const double x : data_of(with_tensor(true, local), 1)) CHECK((x >= 0.1 && x < 1));
  for (const DType dtype : {i64, i32, i8, u8, boolean}) {
    for (const bool is_state : {false, true}) {
      const ir::Data data = data_of(with_tensor(is_state, local, dtype), 1);
      for (const double x : data) CHECK(x == round_to(dtype, x));
      CHECK(std::set<double>(data.begin(), data.end()).size() > 1);
    }
  }
}
