// Checks the derivative of an op that the application defines, by having it write the gradients of
// operands f32[n].
#include <fmt/format.h>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/custom_op.h"
#include "ir/graph.h"

namespace coconet::ir {

namespace {

[[noreturn]] void refuse(const PointwiseDefinition& definition, const std::string& message) {
  throw ProgramError(
      fmt::format("the derivative of pointwise op '{}' {}", definition.name, message));
}

/// The line of the gradient `made` of `operand`. Throws ProgramError where it is none of `program`,
/// or not of `result`'s dtype and shape.
std::string line_of(const PointwiseDefinition& definition, const Program& program,
                    const Value& operand, const Value& result, const Value& made) {
  const std::string& name = operand.name();
  if (made.is_empty()) return name + ": none\n";
  if (operand.dtype() == boolean) {
    refuse(definition, fmt::format("gives a gradient of {}, which is bool; it must give an empty "
                                   "Value for it",
                                   name));
  }
  if (graph_of(made) == nullptr) return fmt::format("{}: {}\n", name, made.constant());
  if (graph_of(made) != graph_of(program)) {
    refuse(definition,
           fmt::format("gives '{}' of program '{}' as gradient of {}; it must compute it "
                       "from its arguments",
                       made.name(), graph_of(made)->name, name));
  }
  const Node& node = graph_of(program)->at(id_of(made));
  if (!node.weak && (node.dtype != f32 || node.shape != result.shape())) {
    refuse(definition,
           fmt::format("gives {} as gradient of {}, which is f32[n]; both must have one "
                       "dtype and shape",
                       describe(*graph_of(program), id_of(made)), name));
  }
  return name + ": " + made.name() + "\n";
}

}  // namespace

std::string derivative_text(const PointwiseDefinition& definition) {
  if (!definition.derivative) return "";
  if (definition.rule == DTypeRule::compare || definition.rule == DTypeRule::logical) {
    refuse(definition, "cannot be, as the op's result is bool; leave it out");
  }
  Program program("derivative of " + definition.name, Mesh({{"world", 1}}));
  const Dim n = program.dim("n");
  std::vector<Value> operands;
  for (int i = 0; i < definition.arity; ++i) {
    const bool is_condition = i == 0 && definition.rule == DTypeRule::choose;
    operands.push_back(program.input(std::string(1, static_cast<char>('a' + i)),
                                     is_condition ? boolean : f32, {n}, replicated));
  }
  const Value result = program.input("result", f32, {n}, replicated);
  const Value gradient = program.input("gradient", f32, {n}, replicated);
  std::vector<Value> gradients;
  try {
    gradients = definition.derivative(operands, result, gradient);
  } catch (const ProgramError& error) {
    refuse(definition, fmt::format("cannot be written for operands f32[n]: {}", error.what()));
  }
  if (gradients.size() != operands.size()) {
    refuse(definition,
           fmt::format("gives {} gradient{}; it must give {}, one for each operand, of which those "
                       "that an operand does not have are an empty Value",
                       gradients.size(), gradients.size() == 1 ? "" : "s", operands.size()));
  }
  std::string text;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    text += line_of(definition, program, operands[i], result, gradients[i]);
  return text + program.str();
}

}  // namespace coconet::ir
