// The mesh: rank numbers as coordinates along named axes, and layouts resolved against it.
#include "coconet/mesh.h"

#include <fmt/format.h>

#include <cstddef>
#include <limits>

#include "coconet/error.h"
#include "ir/graph.h"

namespace coconet {

namespace {

std::vector<std::string> axis_names(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const Mesh::Axis& axis : mesh.axes()) names.push_back(axis.name);
  return names;
}

// How far apart in rank number two neighbours along `axis` are.
int stride_of(const Mesh& mesh, int axis) {
  int stride = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < mesh.axes().size(); ++i) {
    stride *= mesh.axes()[i].size;
  }
  return stride;
}

}  // namespace

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  if (axes_.empty()) throw ProgramError("a mesh needs at least one axis, such as {\"world\", 2}");
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    if (axis.name.empty()) {
      throw ProgramError(
          fmt::format("axis {} of the mesh has no name; give it one, such as \"world\"", i));
    }
    if (find(axis.name) != static_cast<int>(i)) {
      throw ProgramError("the mesh has two axes called '" + axis.name +
                         "'; their names must differ");
    }
    if (axis.size < 1) {
      throw ProgramError(fmt::format("mesh axis '{}' has {} ranks; it must have at least 1",
                                     axis.name, axis.size));
    }
    ranks *= axis.size;
    if (ranks > std::numeric_limits<int>::max()) {
      throw ProgramError("the mesh has more ranks than can be numbered, from axis '" + axis.name +
                         "' on");
    }
  }
}

int Mesh::size() const {
  int ranks = 1;
  for (const Axis& axis : axes_) ranks *= axis.size;
  return ranks;
}

int Mesh::find(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int Mesh::coordinate(int rank, int axis) const {
  return rank / stride_of(*this, axis) % axes_.at(axis).size;
}

std::vector<int> Mesh::group(int rank, int axis) const {
  const int stride = stride_of(*this, axis);
  const int first = rank - coordinate(rank, axis) * stride;
  std::vector<int> ranks;
  for (int i = 0; i < axes_.at(axis).size; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

std::string Mesh::str() const {
  std::string text = "{";
  for (const Axis& axis : axes_) {
    if (text.size() > 1) text += ", ";
    text += fmt::format("{}: {}", axis.name, axis.size);
  }
  return text + "}";
}

Layout Layout::on(std::vector<std::pair<std::string, Placement>> axes) {
  Layout layout;
  layout.named_ = std::move(axes);
  return layout;
}

std::vector<Placement> Layout::resolve(const Mesh& mesh) const {
  if (everywhere_) {
    if (all_.kind == Placement::Kind::sliced && mesh.axes().size() > 1) {
      const std::string slice = fmt::format("sliced({})", all_.dim);
      throw ProgramError("the layout " + slice + " does not say along which axis of the mesh " +
                         mesh.str() + "; write Layout::on({{\"" + mesh.axes().front().name +
                         "\", " + slice + "}})");
    }
    return std::vector<Placement>(mesh.axes().size(), all_);
  }
  std::vector<Placement> placements(mesh.axes().size(), replicated);
  std::vector<bool> seen(mesh.axes().size(), false);
  for (const auto& [name, placement] : named_) {
    const int axis = mesh.find(name);
    if (axis < 0) {
      throw ProgramError("the layout names the axis '" + name + "', which the mesh " + mesh.str() +
                         " does not have" + ir::suggestion(name, axis_names(mesh)));
    }
    const auto index = static_cast<std::size_t>(axis);
    if (seen[index])
      throw ProgramError("the layout names the axis '" + name + "' twice; one placement is enough");
    seen[index] = true;
    placements[index] = placement;
  }
  return placements;
}

}  // namespace coconet
