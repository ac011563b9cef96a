// Meshes and layouts: coordinates, groups, resolution, and the sentences of what is wrong.
#include "coconet/mesh.h"

#include <catch2/catch.hpp>

#include "refusal.h"

using namespace coconet;

namespace {

std::string mesh_error(std::vector<Mesh::Axis> axes) {
  return refusal<ProgramError>([&] { Mesh mesh(axes); });
}

}  // namespace

TEST_CASE("the last axis varies fastest with the rank") {
  const Mesh mesh({{"node", 2}, {"gpu", 8}});
  CHECK(mesh.size() == 16);
  CHECK(mesh.coordinate(9, 0) == 1);
  CHECK(mesh.coordinate(9, 1) == 1);
  CHECK(mesh.group(9, 0) == std::vector<int>{1, 9});
  CHECK(mesh.group(9, 1) == std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(mesh.str() == "{node: 2, gpu: 8}");
}

TEST_CASE("the groups along an axis partition the ranks") {
  const Mesh mesh({{"a", 3}, {"b", 2}, {"c", 4}});
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<int> seen(static_cast<std::size_t>(mesh.size()), 0);
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const std::vector<int> group = mesh.group(rank, axis);
      CHECK(group[static_cast<std::size_t>(mesh.coordinate(rank, axis))] == rank);
      for (const int member : group) ++seen[static_cast<std::size_t>(member)];
    }
    for (const int count : seen) CHECK(count == mesh.axes()[static_cast<std::size_t>(axis)].size);
  }
}

TEST_CASE("an axis is found by its name") {
  const Mesh mesh({{"pp", 2}, {"tp", 2}});
  CHECK(mesh.find("tp") == 1);
  CHECK(mesh.find("dp") == -1);
}

TEST_CASE("a wrong mesh is refused with the reason") {
  CHECK(mesh_error({}) == "a mesh needs at least one axis, such as {\"world\", 2}");
  CHECK(mesh_error({{"a", 2}, {"", 2}}) ==
        "axis 1 of the mesh has no name; give it one, such as \"world\"");
  CHECK(mesh_error({{"a", 2}, {"a", 3}}) ==
        "the mesh has two axes called 'a'; their names must differ");
  CHECK(mesh_error({{"a", 0}}) == "mesh axis 'a' has 0 ranks; it must have at least 1");
  CHECK(mesh_error({{"a", 65536}, {"b", 65536}}) ==
        "the mesh has more ranks than can be numbered, from axis 'b' on");
}

TEST_CASE("one placement holds for all axes, and axes that are not named are replicated") {
  const Mesh mesh({{"pp", 2}, {"tp", 2}});
  CHECK(Layout(local).resolve(mesh) == std::vector<Placement>{local, local});
  CHECK(Layout::on({{"tp", sliced(1)}}).resolve(mesh) ==
        std::vector<Placement>{replicated, sliced(1)});
  CHECK(Layout(sliced(0)).resolve(Mesh({{"world", 4}})) == std::vector<Placement>{sliced(0)});
}

TEST_CASE("a layout that does not fit the mesh is refused with the reason") {
  const Mesh mesh({{"pp", 2}, {"tp", 2}});
  CHECK(refusal<ProgramError>([&] { (void)Layout(sliced(0)).resolve(mesh); }) ==
        "the layout sliced(0) does not say along which axis of the mesh {pp: 2, tp: 2}; write "
        "Layout::on({{\"pp\", sliced(0)}})");
  CHECK(refusal<ProgramError>([&] {
          (void)Layout::on({{"tpp", local}}).resolve(mesh);
        }) ==
        "the layout names the axis 'tpp', which the mesh {pp: 2, tp: 2} does not have; did you "
        "mean 'tp'?");
  CHECK(refusal<ProgramError>([&] {
          (void)Layout::on({{"tp", local}, {"tp", replicated}}).resolve(mesh);
        }) == "the layout names the axis 'tp' twice; one placement is enough");
}
