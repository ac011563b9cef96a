// The op tables: every row is reachable by its code and its name.
#include "ir/op.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

using namespace coconet::ir;

TEST_CASE("every pointwise row is found by its op and by its name") {
  std::set<std::string_view> names;
  for (const PointwiseRow& row : pointwise_table()) {
    INFO(row.name);
    CHECK(find_pointwise(row.op) == &row);
    CHECK(to_string(row.op) == row.name);
    CHECK(parse_op(row.name) == row.op);
    CHECK(arity(row.op) == row.arity);
    CHECK(names.insert(row.name).second);
    CHECK(row.device.find('a') != std::string_view::npos);
  }
}

TEST_CASE("structural ops have names and arities and are not pointwise") {
#define COCONET_STRUCTURAL(name, kind, operands, attributes, summary) \
  CHECK(to_string(Op::name) == #name);                                \
  CHECK(parse_op(#name) == Op::name);                                 \
  CHECK(arity(Op::name) == (operands));                               \
  CHECK_FALSE(is_pointwise(Op::name));                                \
  CHECK(kind_of(Op::name) == OpKind::kind);
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
  CHECK(is_elementwise(Op::cast));
  CHECK(is_elementwise(Op::dropout));
  CHECK(is_elementwise(Op::join_halves));
  CHECK(is_elementwise(Op::repeat));
  CHECK_FALSE(is_elementwise(Op::update));
  CHECK(is_elementwise(Op::slice));
  CHECK_FALSE(parse_op("al_reduce").has_value());
}
