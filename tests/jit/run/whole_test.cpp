// Whole tensors: every rank writes and reads them alike, whatever the schedule has made of them.
#include <catch2/catch.hpp>
#include <numeric>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/require_on_rank.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// [4, 5, 6] counted up, and the same as a state that is sliced along `dim`.
void check_whole(const World& world, const Layout& layout) {
  Program program("whole", Mesh::over(world));
  const Value x = program.state("x", f32, {4, 5, 6}, layout);
  update(x, x + 1);
  Executable step = compile(program, Schedule(), world);
  std::vector<float> whole(120);
  std::iota(whole.begin(), whole.end(), 0.0f);
  step.write_whole("x", whole);
  step.run();
  for (float& one : whole) one += 1;
  REQUIRE_ON_RANK(whole_of(step, "x") == whole);
}

}  // namespace

TEST_CASE("a whole tensor survives being written and read, along whatever it is sliced") {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const Layout& layout : {Layout(replicated), Layout(local), Layout(sliced(0)),
                                 Layout(sliced(1)), Layout(sliced(2))})
      REQUIRE_NOTHROW(World::local(ranks, [&](World& world) { check_whole(world, layout); }));
  }
}

TEST_CASE("on a mesh of two axes a tensor is whole across both that slice it") {
  REQUIRE_NOTHROW(World::local(4, [](World& world) {
    Program program("grid", Mesh({{"a", 2}, {"b", 2}}));
    const Value x =
        program.state("x", f32, {5, 3}, Layout::on({{"a", sliced(1)}, {"b", sliced(0)}}));
    const Value y = program.state("y", f32, {3}, Layout::on({{"a", local}, {"b", sliced(0)}}));
    update(x, x * 2);
    update(y, y * 2);
    Executable step = compile(program, Schedule(), world);
    std::vector<float> x_whole(15);
    std::iota(x_whole.begin(), x_whole.end(), 1.0f);
    const auto group = static_cast<float>(world.rank() / 2);  // along a
    step.write_whole("x", x_whole);
    step.write_whole("y", std::vector<float>(3, group));
    step.run();
    for (float& one : x_whole) one *= 2;
    REQUIRE_ON_RANK(whole_of(step, "x") == x_whole);
    REQUIRE_ON_RANK(whole_of(step, "y") == std::vector<float>(3, 2 * group));
  }));
}

TEST_CASE("states that a schedule slices are whole all the same, and a slice says where it is") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Executable step = compile_shipped(world, "adam", "fused", 9);
    step.write_whole("g", std::vector<float>(9, 1));
    std::vector<float> m(9);
    std::iota(m.begin(), m.end(), 0.0f);
    step.write_whole("m", m);
    step.run({{"lr", 0.0}, {"t", 1}});
    const std::vector<float> found = whole_of(step, "m");
    for (std::size_t i = 0; i < 9; ++i)
      REQUIRE_ON_RANK(std::abs(found[i] - (0.9f * m[i] + 0.1f)) < 1e-6f);
    const Executable::Slice slice = step.slice_of("m");
    REQUIRE_ON_RANK(slice.begin == std::vector<std::int64_t>{world.rank() == 0 ? 0 : 5});
    REQUIRE_ON_RANK(slice.extent == std::vector<std::int64_t>{world.rank() == 0 ? 5 : 4});
    REQUIRE_ON_RANK(slice.whole == std::vector<std::int64_t>{9});
  }));
}

TEST_CASE("a whole of another length, or a scalar of several elements, is refused") {
  const World world = World::self();
  Program program("few", Mesh::over(world));
  const Value x = program.state("x", f32, {3}, replicated);
  update(x, x + 1);
  program.output("total", sum(x).named("total"));
  Executable step = compile(program, Schedule(), world);
  std::vector<float> two(2);
  const std::string refusal = "'x' has 3 elements as a whole, and 2 are given";
  CHECK_THROWS_WITH(step.write_whole("x", two), refusal);
  CHECK_THROWS_WITH(step.read_whole("x", two), refusal);
  step.write_whole("x", std::vector<float>{1, 2, 3});
  step.run();
  CHECK((step.scalar_of<float>("total") == 6 || step.scalar_of<float>("total") == 9));
  CHECK_THROWS_AS(step.scalar_of<float>("x"), BackendError);
  CHECK_THROWS_AS(step.scalar_of<double>("total"), BackendError);
}
