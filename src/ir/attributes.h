// What ops need beside their operands, from the table in src/ir/attributes.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/program.h"
#include "ir/op.h"

namespace coconet::ir {

/// The kinds of attributes. How one of a kind is read, written and printed is a function that is
/// overloaded on these; one that is missing does not compile.
namespace attribute {
struct real {  ///< any double
  using type = double;
};
struct integer {
  using type = int;
};
struct index {  ///< from 0 on
  using type = int;
};
struct place {  ///< along a dimension, from 0 on
  using type = std::int64_t;
};
struct exception {  ///< nothing where there is none
  using type = std::optional<std::int64_t>;
};
struct seed {
  using type = std::uint64_t;
};
struct flag {  ///< where it is not given, it is false
  using type = bool;
};
struct reduction {
  using type = Reduction;
};
struct mesh_axis {  ///< its index; JSON has its name
  using type = int;
};
struct dimensions {  ///< of the operand's; all where JSON has none
  using type = std::vector<int>;
};
struct permutation {  ///< of the operand's dimensions
  using type = std::vector<int>;
};
struct insertion {  ///< of dimensions among the operand's
  using type = std::vector<int>;
};
struct shape {
  using type = Shape;
};
struct letters {  ///< of a contraction
  using type = std::string;
};
struct extent {
  using type = Dim;
};
struct dtype {
  using type = std::optional<DType>;
};
}  // namespace attribute

/// Each op reads the fields that its row names; the others keep their initial values.
struct Attributes {
#define COCONET_ATTRIBUTE(name, kind, initial, summary) attribute::kind::type name = initial;
#include "ir/attributes.def"
#undef COCONET_ATTRIBUTE
  bool operator==(const Attributes&) const = default;
};

/// Calls `visit(key, kind, value)` for each attribute of `op`, in the order of its row; `kind` is
/// one of the structs above and `value` the field of `attributes`, which may be const.
template <class AttributesOf, class Visit>
void for_each_attribute(Op op, AttributesOf& attributes, const Visit& visit) {
  for (const std::string_view key : attribute_keys(op)) {
#define COCONET_ATTRIBUTE(name, kind, initial, summary) \
  if (key == #name) visit(key, attribute::kind{}, attributes.name);
#include "ir/attributes.def"
#undef COCONET_ATTRIBUTE
  }
}

}  // namespace coconet::ir
