// Programs that tests of the typing rules begin with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/graph.h"

namespace coconet::test {

inline std::string type_of(const Value& value) {
  return ir::describe(*ir::graph_of(value), ir::id_of(value));
}

/// Two ranks on one axis, and tensors of each layout.
struct Flat {
  Program p{"p", Mesh({{"world", 2}})};
  Dim n = p.dim("n", 8);
  Value w = p.state("w", f32, {n}, replicated);
  Value g = p.input("g", f32, {n}, local);
  Value s = p.input("s", f32, {n}, sliced(0));
  Value lr = p.scalar("lr");
};

/// Two mesh axes.
struct Grid {
  Program p{"grid", Mesh({{"pp", 2}, {"tp", 3}})};
  Dim n = p.dim("n", 8);

  Value input(const char* name, Shape shape,
              std::vector<std::pair<std::string, Placement>> layout) {
    return p.input(name, f32, std::move(shape), Layout::on(std::move(layout)));
  }
};

}  // namespace coconet::test
