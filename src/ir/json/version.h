// The version of program JSON that the writer writes and the reader reads.
#pragma once

namespace coconet::ir {

inline constexpr int program_json_version = 1;

}  // namespace coconet::ir
