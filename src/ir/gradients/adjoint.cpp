// What adjoints are written with: gradients in the shape and layout that an op needs, and
// contributions brought to the shape and the ranks of an operand.
#include "ir/gradients/adjoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/factors.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

namespace {

/// The extent of `dim` as a number of the program.
Value extent_of(const std::shared_ptr<Graph>& graph, const Dim& dim) {
  if (!dim.symbolic()) return dim.extent;
  return value_of(graph, append(*graph, {.op = Op::extent, .attributes = {.extent = dim}}));
}

}  // namespace

Value whole_like(const std::shared_ptr<Graph>& graph, const Value& value, const Node& like) {
  const bool has_shape = !is_number(value) && value.shape() == like.shape;
  return made_sliced(has_shape ? value : expanded(graph, value, like), like.layout);
}

Adjoint::Adjoint(std::shared_ptr<Graph> graph, ValueId id, Value gradient,
                 const Indexed<char>& depends, Contributions& contributions)
    : graph_(std::move(graph)),
      id_(id),
      node_(graph_->at(id)),
      gradient_(std::move(gradient)),
      depends_(depends),
      contributions_(contributions) {}

Value Adjoint::whole() const {
  return whole_like(graph_, gradient_, node_);
}

Value Adjoint::whole_and_own() const {
  return made_local(whole(), node_.layout);
}

int Adjoint::ranks() const {
  return graph_->mesh.axes()[node_.attributes.axis].size;
}

const std::string& Adjoint::axis() const {
  return graph_->mesh.axes()[node_.attributes.axis].name;
}

bool Adjoint::is_sliced(const Value& value) const {
  return !is_number(value) && value.layout()[node_.attributes.axis].kind == Placement::Kind::sliced;
}

void Adjoint::refuse(const std::string& message) const {
  fail(*graph_, node_, "no gradient goes through it: " + message);
}

namespace {

/// `value` summed over the dimensions that a tensor of shape `to` lacks or has an extent of 1 in,
/// counted from the right.
Value summed_to(Value value, const Shape& to) {
  const std::size_t before =
      value.shape().size() > to.size() ? value.shape().size() - to.size() : 0;
  std::vector<int> repeated, leading;
  for (std::size_t d = 0; d < before; ++d) leading.push_back(static_cast<int>(d));
  const std::size_t shift = to.size() + before - value.shape().size();
  for (std::size_t d = before; d < value.shape().size(); ++d) {
    if (to[d - before + shift] == Dim(1) && !(value.shape()[d] == Dim(1)))
      repeated.push_back(static_cast<int>(d));
  }
  if (!repeated.empty()) value = sum(value, repeated, true);
  if (!leading.empty()) value = sum(value, leading);
  return value;
}

}  // namespace

void Adjoint::give_broadcast(std::size_t index, Value contribution) {
  if (!wants(index)) return;
  // What the contribution has once for a dimension that the operand is repeated in counts as often.
  Indexed<char> passes(node_.shape.size(), 0);
  for (const Factor& factor : factors_of(*graph_, node_, index)) {
    if (factor.kind == Factor::Kind::passes) passes[factor.of_result] = 1;
  }
  const Shape shape = is_number(contribution) ? Shape{} : contribution.shape();
  for (std::size_t d = 0; d < node_.shape.size(); ++d) {
    if (passes[d] || node_.shape[d] == Dim(1)) continue;
    const std::size_t from_right = node_.shape.size() - d;
    const bool has = from_right <= shape.size() && !(shape[shape.size() - from_right] == Dim(1));
    if (!has) contribution = contribution * extent_of(graph_, node_.shape[d]);
  }
  give(index, std::move(contribution));
}

void Adjoint::give(std::size_t index, Value contribution) {
  if (!wants(index)) return;
  const Node& to = graph_->at(node_.operands[index]);
  const Shape shape = to.shape;
  const Placements layout = to.layout;
  if (!is_number(contribution)) contribution = summed_to(std::move(contribution), shape);
  // Ranks whose parts are alike have as many of them; others add up later.
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (layout[axis] != replicated || node_.layout[axis] != local) continue;
    if (is_number(contribution) || contribution.layout()[axis] == replicated)
      contribution = contribution * graph_->mesh.axes()[axis].size;
  }
  contributions_.note(contribution);
  contributions_.to[node_.operands[index]].push_back(std::move(contribution));
}

}  // namespace coconet::ir
