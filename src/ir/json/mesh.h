// The mesh of a program's JSON, of which one axis may leave its size to the number of ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coconet/mesh.h"
#include "ir/json/element.h"

namespace coconet::ir {

/// The mesh at `element`, for `ranks` ranks; 0 where their number is not known. Throws ProgramError
/// with the place of what is wrong.
[[nodiscard]] Mesh read_mesh(const JsonElement& element, int ranks);

/// A program whose mesh is for any multiple of a number of ranks.
struct OpenProgram {
  std::string name;
  int multiple_of = 1;  ///< ranks along the axes whose sizes are numbers
};
/// What `json` says of one; nothing when its mesh is fixed, or `from_json` refuses it anyway.
[[nodiscard]] std::optional<OpenProgram> find_open(std::string_view json);

}  // namespace coconet::ir
