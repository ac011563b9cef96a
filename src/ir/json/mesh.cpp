// Reads meshes; see mesh.h.
#include "ir/json/mesh.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "coconet/error.h"

namespace coconet::ir {

namespace {

/// The axes as written; `open` is the one that says "ranks", whose size is 1 here.
struct WrittenAxes {
  std::vector<Mesh::Axis> axes;
  std::optional<std::size_t> open;

  /// The axes whose sizes are numbers: "node: 2, gpu: 4".
  [[nodiscard]] std::string others() const {
    std::string text;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (i != open)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", axes[i].name, axes[i].size);
    }
    return text;
  }
  /// Their product, no further than past what an int holds.
  [[nodiscard]] std::int64_t product() const {
    std::int64_t ranks = 1;
    for (const Mesh::Axis& axis : axes) {
      if (ranks <= std::numeric_limits<int>::max()) ranks *= axis.size;
    }
    return ranks;
  }
};

WrittenAxes read_axes(const JsonElement& element) {
  WrittenAxes written;
  for (const JsonElement& axis : element.elements()) {
    axis.require_object({"name", "size"});
    const std::string name = axis.at("name").name();
    const JsonElement size = axis.at("size");
    if (!size.is_string()) {
      written.axes.push_back({name, size.small_integer(1)});
      continue;
    }
    if (size.string() != "ranks")
      size.wrong_type("a whole number of at least 1, or \"ranks\" for those that are left");
    if (written.open) {
      size.fail("axis '" + written.axes[*written.open].name +
                "' has what is left of the ranks already; give all axes but one a number");
    }
    written.open = written.axes.size();
    written.axes.push_back({name, 1});
  }
  return written;
}

/// The size of the open axis, written at `size`, in a mesh of `ranks` ranks.
int size_left(const WrittenAxes& written, const JsonElement& size, int ranks) {
  const std::string& name = written.axes[*written.open].name;
  if (ranks == 0) {
    size.fail("the size of axis '" + name +
              "' depends on the number of ranks; pass it to Program::load or Program::parse, "
              "or write a number here");
  }
  if (ranks < 0) size.fail(fmt::format("there cannot be {} ranks; pass 1 or more", ranks));
  const std::int64_t others = written.product();
  if (ranks % others != 0) {
    size.fail(
        fmt::format("axis '{}' cannot have what is left of {} rank{}, which {} does not "
                    "divide; the other axes are {{{}}}, so take a multiple of {}",
                    name, ranks, ranks == 1 ? "" : "s", others, written.others(), others));
  }
  return static_cast<int>(ranks / others);
}

}  // namespace

Mesh read_mesh(const JsonElement& element, int ranks) {
  WrittenAxes written = read_axes(element);
  if (written.open) {
    const JsonElement size = element.elements()[*written.open].at("size");
    written.axes[*written.open].size = size_left(written, size, ranks);
  }
  try {
    return Mesh(std::move(written.axes));
  } catch (const ProgramError& error) {
    element.fail(error.what());
  }
}

std::optional<OpenProgram> find_open(std::string_view json) {
  try {
    const JsonElement root = parse_json(json, "program JSON");
    const WrittenAxes written = read_axes(root.at("mesh"));
    if (!written.open || written.product() > std::numeric_limits<int>::max()) return std::nullopt;
    return OpenProgram{root.at("name").name(), static_cast<int>(written.product())};
  } catch (const ProgramError&) {
    return std::nullopt;
  }
}

}  // namespace coconet::ir
