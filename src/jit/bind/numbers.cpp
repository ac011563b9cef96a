// Evaluation of a program's numbers.
#include "jit/bind/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "coconet/error.h"
#include "ir/random.h"
#include "jit/abi/abi.h"

namespace coconet::jit {

using ir::Node;
using ir::Op;
using ir::ValueId;

Numbers::Numbers(const RankPlan& plan) : graph_(plan.graph()), values_(graph_.nodes().size(), 0.0) {
  for (ValueId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.at(id);
    if (ir::draws_random(node.op)) draws_.push_back(id);
    if (!node.weak) continue;
    double& value = values_[id];
    switch (node.op) {
      case Op::constant:
        value = node.attributes.number;
        break;
      case Op::extent:
        value = static_cast<double>(plan.extent(node.attributes.extent));
        break;
      case Op::scalar:
        scalars_.push_back({node.name, id});
        break;
      default: {
        const auto operand = [&](std::size_t i) {
          return node.operands[std::min(i, node.operands.size() - 1)];
        };
        program_.push_back(
            {ir::find_pointwise(node.op)->reference, id, operand(0), operand(1), operand(2)});
      }
    }
  }
}

void Numbers::evaluate(std::span<const ScalarValue> scalars) {
  for (const auto& [name, value] : scalars) {
    const auto found = std::ranges::find(scalars_, name, &Scalar::name);
    if (found == scalars_.end()) {
      std::vector<std::string> known;
      for (const Scalar& scalar : scalars_) known.push_back(scalar.name);
      throw BackendError(fmt::format(
          "there is no scalar '{}'; the program {}", name,
          known.empty() ? "has none" : fmt::format("takes {}", fmt::join(known, ", "))));
    }
    values_[found->id] = value;
  }
  for (const Scalar& scalar : scalars_) {
    const auto given = std::ranges::count(scalars, scalar.name, &ScalarValue::first);
    if (given == 0) {
      throw BackendError(fmt::format(
          "scalar '{0}' is missing; give it to run, {{{{\"{0}\", value}}}}", scalar.name));
    }
    if (given > 1)
      throw BackendError(fmt::format("scalar '{}' is given twice; give it once", scalar.name));
  }
  // As FNV-1a, a word at a time.
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const Scalar& scalar : scalars_)
    digest = (digest ^ std::bit_cast<std::uint64_t>(values_[scalar.id])) * 0x100000001b3;
  digest ^= digest >> 32;
  given_ = (digest ^ digest >> abi::GIVEN_BITS) & ((std::uint64_t{1} << abi::GIVEN_BITS) - 1);
  for (const Instruction& step : program_) {
    values_[step.result] = step.function((*this)[step.a], (*this)[step.b], (*this)[step.c]);
  }
  for (const ValueId id : draws_) {
    const Node& node = graph_.at(id);
    const double offset = (*this)[node.operands[1]];
    if (!ir::is_random_offset(offset))
      throw BackendError(ir::random_offset_error(graph_, node, offset));
  }
}

std::string Numbers::text() const {
  std::vector<std::string> all;
  for (const Scalar& scalar : scalars_)
    all.push_back(fmt::format("{}={}", scalar.name, (*this)[scalar.id]));
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace coconet::jit
