// Sizes of dimensions, the blocks that ranks hold, and suggestions for misspelt names.
#include "ir/extents.h"

#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "refusal.h"

using namespace coconet;
using namespace coconet::ir;

namespace {

Graph graph_with(std::vector<Dim> dims) {
  Graph graph;
  graph.name = "p";
  graph.dims = std::move(dims);
  return graph;
}

std::string sizes_error(const Graph& graph, const std::map<std::string, std::int64_t>& given) {
  return refusal<ProgramError>([&] { (void)resolve_sizes(graph, given); });
}

}  // namespace

TEST_CASE("given sizes come before defaults") {
  const Graph graph = graph_with({Dim("n", 8), Dim("m", 0)});
  const auto sizes = resolve_sizes(graph, {{"m", 3}});
  CHECK(sizes.at("n") == 8);
  CHECK(sizes.at("m") == 3);
  CHECK(resolve_sizes(graph, {{"m", 3}, {"n", 5}}).at("n") == 5);
  CHECK(global_extents({Dim("m", 0), Dim(4)}, sizes) == Extents{3, 4});
}

TEST_CASE("wrong sizes are refused with the reason") {
  const Graph graph = graph_with({Dim("rows", 8), Dim("m", 0)});
  CHECK(sizes_error(graph, {}) ==
        "dimension 'm' of program 'p' has no extent and no default; give it one, such as {\"m\", "
        "1024}");
  CHECK(sizes_error(graph, {{"m", 0}}) ==
        "dimension 'm' of program 'p' has the extent 0; it must be at least 1");
  CHECK(sizes_error(graph, {{"m", 1}, {"row", 1}}) ==
        "program 'p' has no dimension 'row'; did you mean 'rows'?");
  CHECK(sizes_error(graph, {{"m", 1}, {"columns", 1}}) ==
        "program 'p' has no dimension 'columns'; its dimensions are rows, m");
  CHECK(sizes_error(graph_with({}), {{"n", 1}}) ==
        "program 'p' has no dimension 'n'; all its extents are fixed");
}

TEST_CASE(
    "blocks are as long as the size over the ranks, rounded up; the last are short or empty") {
  const Mesh mesh({{"world", 4}});
  const auto block = [&](std::int64_t size, int rank) {
    return part_of(mesh, {sliced(0)}, {size}, rank);
  };
  CHECK(block(10, 0).extent == Extents{3});
  CHECK(block(10, 3).begin == Extents{9});
  CHECK(block(10, 3).extent == Extents{1});
  CHECK(block(5, 2).begin == Extents{4});
  CHECK(block(5, 2).extent == Extents{1});
  CHECK(block(5, 3).begin == Extents{5});
  CHECK(block(5, 3).count() == 0);
  CHECK(block(1, 3).count() == 0);
  CHECK(block_count(mesh, {sliced(0)}, {10}) == 3);
}

TEST_CASE("long blocks begin at multiples of 16 elements") {
  const Mesh mesh({{"world", 4}});
  const auto block = [&](std::int64_t size, int rank) {
    return part_of(mesh, {sliced(0)}, {size}, rank);
  };
  CHECK(block_length(4092, 4) == 1023);
  CHECK(block_length(4093, 4) == 1024);
  CHECK(block_length(4097, 4) == 1040);
  CHECK(block_length(std::numeric_limits<std::int64_t>::max(), 2) == std::int64_t{1} << 62);
  CHECK(block_length(4097, 1) == 4097);
  CHECK(block(4097, 1).begin == Extents{1040});
  CHECK(block(4097, 3).begin == Extents{3120});
  CHECK(block(4097, 3).extent == Extents{977});
  CHECK(block_count(mesh, {sliced(0)}, {4097}) == 1040);
  CHECK(block(4160, 3).extent == Extents{1040});

  const Mesh nested({{"node", 2}, {"gpu", 3}});
  for (int rank = 0; rank < nested.size(); ++rank)
    CHECK(part_of(nested, {sliced(0), sliced(0)}, {10001}, rank).begin.front() % 16 == 0);
}

TEST_CASE("replicated and local ranks hold the whole") {
  const Mesh mesh({{"world", 3}});
  for (const Placement placement : {replicated, local}) {
    const Part part = part_of(mesh, {placement}, {4, 5}, 2);
    CHECK(part.begin == Extents{0, 0});
    CHECK(part.extent == Extents{4, 5});
  }
}

TEST_CASE("axes that slice one dimension nest, and together cover it once") {
  const Mesh mesh({{"a", 3}, {"b", 2}});
  for (std::int64_t size = 1; size <= 20; ++size) {
    std::multiset<std::int64_t> covered;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Part outer = part_of(mesh, {sliced(0), replicated}, {size}, rank);
      const Part inner = part_of(mesh, {sliced(0), sliced(0)}, {size}, rank);
      CHECK(inner.begin[0] >= outer.begin[0]);
      CHECK(inner.begin[0] + inner.extent[0] <= outer.begin[0] + outer.extent[0]);
      CHECK(inner.count() <= block_count(mesh, {sliced(0), sliced(0)}, {size}));
      for (std::int64_t i = 0; i < inner.extent[0]; ++i) covered.insert(inner.begin[0] + i);
    }
    CHECK(covered.size() == static_cast<std::size_t>(size));
    CHECK(std::set<std::int64_t>(covered.begin(), covered.end()).size() ==
          static_cast<std::size_t>(size));
  }
}

TEST_CASE("axes may slice different dimensions") {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  const Part part = part_of(mesh, {sliced(1), sliced(0)}, {5, 7}, 3);
  CHECK(part.begin == Extents{3, 4});
  CHECK(part.extent == Extents{2, 3});
}

TEST_CASE("a tensor too large to count is refused") {
  CHECK_THROWS_WITH(product({std::int64_t{1} << 40, std::int64_t{1} << 40}),
                    "a tensor has more elements than a 64-bit number can count");
}

TEST_CASE("the nearest known name is suggested, and none when nothing is near") {
  CHECK(nearest("al_reduce", {"reduce", "all_reduce", "add"}) == "all_reduce");
  CHECK(nearest("sacle", {"scale", "slice"}) == "scale");
  CHECK(nearest("w", {"v", "m"}).empty());
  CHECK(nearest("momentum", {"lr", "t"}).empty());
  CHECK(nearest("x", {}).empty());
  CHECK(nearest("ba", {"ab"}) == "ab");
  CHECK(nearest("reduce_all_", {"all_reduce", "reduce", "reduce_lal", "reduce_all"}) ==
        "reduce_all");
}

TEST_CASE("names that no person has typed have no nearest, which would take minutes to find") {
  const std::string long_name(200'000, 'a');
  const std::vector<std::string> known(100, long_name.substr(1));
  CHECK(nearest(long_name, known).empty());
  CHECK(nearest("input", {long_name, "inputs"}) == "inputs");
  CHECK(nearest(std::string(255, 'a') + "b", {std::string(256, 'a')}) == std::string(256, 'a'));
}
