// Defining pointwise ops: the checks, and the list of those that the process has defined.
#include "ir/custom_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "coconet/error.h"
#include "ir/ascii.h"
#include "ir/graph.h"
#include "ir/ops/infer.h"

namespace coconet {

namespace ir {

namespace {

/// Never destroyed, as executables may outlive static objects.
struct Defined {
  std::shared_mutex mutex;
  std::deque<CustomOp> ops;  ///< by code; grows at the end only
};

Defined& defined() {
  static auto* const all = new Defined;
  return *all;
}

[[noreturn]] void fail(const PointwiseDefinition& definition, const std::string& message) {
  throw ProgramError(fmt::format("pointwise op '{}' {}", definition.name, message));
}

bool is_identifier(std::string_view name) {
  return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, is_word);
}

bool is_built_in(std::string_view name) {
  const auto op = parse_op(name);
  if (op && *op < first_custom()) return true;
  // Printed programs call reductions by these names.
  for (const Reduction reduction :
       {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min, Reduction::prod}) {
    if (to_string(reduction) == name) return true;
  }
  return false;
}

void check(const PointwiseDefinition& definition) {
  if (!is_identifier(definition.name))
    fail(definition,
         "needs another name: one of letters, digits and '_' that begins with a letter");
  if (is_built_in(definition.name))
    fail(definition, "needs another name: coconet-jit has an op of this one");
  const int least = definition.rule == DTypeRule::choose ? 2 : 1;
  if (definition.arity < least || definition.arity > 3) {
    fail(definition, fmt::format("has arity {}; {}", definition.arity,
                                 least == 2 ? "that of an op that chooses must be 2 or 3"
                                            : "it must be 1, 2 or 3"));
  }
  if (definition.cost < 0)
    fail(definition, fmt::format("costs {} additions; it must cost at least 0", definition.cost));
  if (definition.reference == nullptr)
    fail(definition, "has no reference; give it a function that computes it in double");
  const std::string problem = device_text_problem(definition.device, definition.arity);
  if (!problem.empty())
    fail(definition,
         fmt::format("has the device text \"{}\", which {}", definition.device, problem));
}

/// Whether the two compute the same of some operands. Two functions of one text have two addresses
/// where they are of two translation units. None of the operands is 0, by which a function of whole
/// numbers could divide, unless it takes bool.
bool agree(const PointwiseDefinition& one, const PointwiseDefinition& other) {
  if (one.reference == other.reference) return true;
  const std::vector<double> choices = {1, 0};
  const std::vector<double> numbers = {1, -1, 2.5, 7, -3.5};
  const auto operands = [&](int i) {
    const bool takes_bool =
        one.rule == DTypeRule::logical || (one.rule == DTypeRule::choose && i == 0);
    return i >= one.arity ? std::vector<double>{1} : takes_bool ? choices : numbers;
  };
  for (const double a : operands(0)) {
    for (const double b : operands(1)) {
      for (const double c : operands(2)) {
        const double here = one.reference(a, b, c), there = other.reference(a, b, c);
        if (here != there && !(std::isnan(here) && std::isnan(there))) return false;
      }
    }
  }
  return true;
}

/// Throws unless `again`, whose derivative is `derivative`, is `first` once more.
void require_same(const CustomOp& first, const PointwiseDefinition& again,
                  const std::string& derivative) {
  const auto differ = [&](const std::string& how) {
    fail(again, "is defined already, with " + how +
                    "; an op is defined once, or each time alike: give this one another name");
  };
  const PointwiseDefinition& known = first.definition;
  if (known.device != again.device)
    differ(fmt::format("the device text \"{}\" where this one has \"{}\"", known.device,
                       again.device));
  if (known.arity != again.arity)
    differ(fmt::format("arity {} where this one has {}", known.arity, again.arity));
  if (known.rule != again.rule) differ("another dtype rule");
  if (known.cost != again.cost)
    differ(fmt::format("cost {} where this one has {}", known.cost, again.cost));
  if (!agree(known, again)) differ("a reference that computes something else");
  if (first.derivative != derivative) differ("another derivative");
}

const CustomOp* find_among(const std::deque<CustomOp>& ops, std::string_view name) {
  for (const CustomOp& op : ops) {
    if (op.definition.name == name) return &op;
  }
  return nullptr;
}

const CustomOp& add(PointwiseDefinition definition, std::string derivative) {
  Defined& all = defined();
  const std::unique_lock lock(all.mutex);
  if (const CustomOp* known = find_among(all.ops, definition.name)) {
    require_same(*known, definition, derivative);
    return *known;
  }
  const std::size_t code = static_cast<std::size_t>(first_custom()) + all.ops.size();
  if (code > std::numeric_limits<std::uint16_t>::max())
    fail(definition, fmt::format("is one too many; a process may define {}", all.ops.size()));
  CustomOp& made = all.ops.emplace_back();
  made.definition = std::move(definition);
  made.derivative = std::move(derivative);
  const PointwiseDefinition& kept = made.definition;
  made.row = {static_cast<Op>(code), kept.name,     kept.arity, kept.rule, kept.cost,
              kept.device,           kept.reference};
  return made;
}

}  // namespace

const CustomOp* find_custom(Op op) {
  if (op < first_custom()) return nullptr;
  Defined& all = defined();
  const std::shared_lock lock(all.mutex);
  const auto index = static_cast<std::size_t>(op) - static_cast<std::size_t>(first_custom());
  if (index >= all.ops.size())
    throw InternalError(fmt::format("there is no op with the code {}", static_cast<int>(op)));
  return &all.ops[index];
}

const CustomOp* find_custom(std::string_view name) {
  Defined& all = defined();
  const std::shared_lock lock(all.mutex);
  return find_among(all.ops, name);
}

std::vector<std::string> custom_names() {
  Defined& all = defined();
  const std::shared_lock lock(all.mutex);
  std::vector<std::string> names;
  for (const CustomOp& op : all.ops) names.push_back(op.definition.name);
  return names;
}

std::string definitions_of(const Graph& graph) {
  static constexpr std::string_view rules[] = {"numeric", "floating", "compare", "logical",
                                               "choose"};
  std::set<std::string> texts;
  for (const Node& node : graph.nodes()) {
    const CustomOp* const op = find_custom(node.op);
    if (op == nullptr) continue;
    const PointwiseDefinition& of = op->definition;
    texts.insert(fmt::format("{} ({}, {}): {}", of.name,
                             counted(static_cast<std::size_t>(of.arity), "operand"),
                             rules[static_cast<std::size_t>(of.rule)], of.device));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace ir

PointwiseOp define_pointwise(PointwiseDefinition definition) {
  ir::check(definition);
  std::string derivative = ir::derivative_text(definition);
  return PointwiseOp(ir::add(std::move(definition), std::move(derivative)).definition);
}

void PointwiseOp::require_arity(int given) const {
  if (given == definition_->arity) return;
  throw ProgramError(fmt::format("{} takes {} operand{}, not {}", definition_->name,
                                 definition_->arity, definition_->arity == 1 ? "" : "s", given));
}

Value PointwiseOp::operator()(const Value& a) const {
  require_arity(1);
  return detail::pointwise(definition_->name, {a});
}

Value PointwiseOp::operator()(const Value& a, const Value& b) const {
  require_arity(2);
  return detail::pointwise(definition_->name, {a, b});
}

Value PointwiseOp::operator()(const Value& a, const Value& b, const Value& c) const {
  require_arity(3);
  return detail::pointwise(definition_->name, {a, b, c});
}

}  // namespace coconet
