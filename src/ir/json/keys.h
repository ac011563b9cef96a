// What the writer and the reader of program JSON agree on: the version, and which keys each op has
// beside "name", "named", "origin", "op" and "operands".
#pragma once

#include <string_view>
#include <vector>

#include "ir/op.h"

namespace coconet::ir {

inline constexpr int program_json_version = 1;

[[nodiscard]] inline std::vector<std::string_view> attribute_keys(Op op) {
  switch (op) {
    case Op::constant:
      return {"number"};
    case Op::extent:
      return {"extent"};
    case Op::input:
    case Op::state:
      return {"dtype", "shape", "layout", "scattered"};
    case Op::cast:
      return {"dtype"};
    case Op::dropout:
      return {"probability", "seed"};
    case Op::slice:
      return {"dim", "axis"};
    case Op::reduction:
      return {"reduction", "dims", "keep_dims", "partial"};
    case Op::matmul:
      return {"transpose_a", "transpose_b"};
    case Op::all_reduce:
      return {"reduction", "axis"};
    case Op::reduce_scatter:
      return {"reduction", "dim", "axis"};
    case Op::all_gather:
      return {"axis"};
    case Op::reduce:
      return {"reduction", "root", "axis"};
    case Op::broadcast:
      return {"root", "axis"};
    case Op::send:
      return {"offset", "axis"};
    default:
      return {};
  }
}

}  // namespace coconet::ir
