// Functions that are composed of ops: normalisations, and others that models have. No expression
// here makes values in two of its operands: compilers may evaluate those in either order, and a
// program must be the same whoever compiled it.
#include "coconet/error.h"
#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/composing.h"

#include <fmt/format.h>

#include <limits>

namespace coconet {

namespace ir {

void require_given(const Value& value, std::string_view taker) {
  if (!value.is_empty()) return;
  throw ProgramError(fmt::format(
      "{} was given an empty Value, which was declared and has not been assigned", taker));
}

const std::shared_ptr<Graph>& graph_of(const Value& value, std::string_view taker) {
  require_given(value, taker);
  if (!graph_of(value)) {
    throw ProgramError(
        fmt::format("{} takes a tensor of a program, but its operand is the constant {:f}", taker,
                    value.constant()));
  }
  return graph_of(value);
}

void require_layouts(const Value& one, const Value& other, std::string_view taker,
                     const std::function<bool(Placement, Placement)>& goes) {
  const Graph& graph = *graph_of(one);
  for (std::size_t axis = 0; axis < graph.mesh.axes().size(); ++axis) {
    if (goes(one.layout()[axis], other.layout()[axis])) continue;
    throw ProgramError(fmt::format(
        "in program '{}', {}: along axis '{}' {} and {} do not combine; all_gather one of them",
        graph.name, taker, graph.mesh.axes()[axis].name, describe(graph, id_of(one)),
        describe(graph, id_of(other))));
  }
}

bool is_number(const Value& value) {
  return graph_of(value) == nullptr || graph_of(value)->at(id_of(value)).weak;
}

Value widened(const Value& value) {
  if (value.is_empty() || is_number(value) || !is_16_bit(value.dtype())) return value;
  const Graph& graph = *graph_of(value);
  for (const ValueId user : graph.users()[id_of(value)]) {
    if (graph.at(user).op == Op::cast && graph.at(user).dtype == DType::f32)
      return value_of(graph_of(value), user);
  }
  return cast(value, f32);
}

Value narrowed(const Value& value, DType dtype) {
  if (is_number(value) || value.dtype() == dtype) return value;
  const Node& node = graph_of(value)->at(id_of(value));
  if (node.op == Op::cast) {
    const Value from = value_of(graph_of(value), node.operands.front());
    if (from.dtype() == dtype && is_16_bit(dtype)) return from;
  }
  return cast(value, dtype);
}

Value expanded(const std::shared_ptr<Graph>& graph, const Value& value, const Node& like) {
  Attributes attributes{.shape = like.shape};
  if (is_number(value)) attributes.dtype = like.dtype;
  const ValueId from =
      graph_of(value) != nullptr ? id_of(value) : constant_of(*graph, value.constant());
  return value_of(
      graph,
      append(*graph, {.op = Op::expand, .operands = {from}, .attributes = std::move(attributes)}));
}

Value in_range(const Value& indices, const Dim& extent, std::optional<std::int64_t> also) {
  if (is_number(indices) || (indices.dtype() != DType::i32 && indices.dtype() != DType::i64))
    return indices;
  const auto& graph = graph_of(indices);
  Node node{.op = Op::in_range, .operands = {id_of(indices)}};
  node.attributes.also = also;
  node.attributes.extent = extent;
  return value_of(graph, append(*graph, std::move(node)));
}

Value made_sliced(Value value, const Placements& layout) {
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (layout[axis].kind == Placement::Kind::sliced && value.layout()[axis] == replicated)
      value = slice(value, layout[axis].dim, graph_of(value)->mesh.axes()[axis].name);
  }
  return value;
}

Value made_local(Value value, const Placements& layout) {
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (layout[axis] == local && value.layout()[axis] == replicated)
      value = as_local(value, graph_of(value)->mesh.axes()[axis].name);
  }
  return value;
}

}  // namespace ir

using ir::graph_of;
using ir::narrowed;
using ir::require_valid;
using ir::widened;

namespace {

/// Throws what multiplying `value` by `scale` does where both have the same 16 bits; of another
/// dtype the scale must fit the widened value.
void require_scale(const Value& value, const Value& scale) {
  if (is_16_bit(value.dtype()) && graph_of(scale) != nullptr && scale.dtype() == value.dtype())
    require_valid(graph_of(value), [&] { return value * scale; });
}

/// Widened, with mean 0 and variance 1 over `dim`.
Value standardised(const Value& value, int dim, double epsilon) {
  require_valid(graph_of(value, "layer_norm"), [&] { return sum(value, {dim}); });
  const Value x = widened(value);
  const Value centred = x - mean(x, {dim}, true);
  return centred * rsqrt(mean(square(centred), {dim}, true) + epsilon);
}

}  // namespace

Value softmax(const Value& value, int dim) {
  require_valid(graph_of(value, "softmax"), [&] { return max(value, {dim}); });
  const Value x = widened(value);
  const Value exponential = exp(x - stop_gradient(max(x, {dim}, true)));
  return narrowed(exponential / sum(exponential, {dim}, true), value.dtype());
}

Value layer_norm(const Value& value, int dim, double epsilon) {
  return narrowed(standardised(value, dim, epsilon), value.dtype());
}

Value layer_norm(const Value& value, const Value& gamma, const Value& beta, int dim,
                 double epsilon) {
  graph_of(value, "layer_norm");
  require_scale(value, gamma);
  require_scale(value, beta);
  const Value x = standardised(value, dim, epsilon);
  const Value scaled = x * widened(gamma);
  return narrowed(scaled + widened(beta), value.dtype());
}

Value rms_norm(const Value& value, const Value& gamma, int dim, double epsilon) {
  require_valid(graph_of(value, "rms_norm"), [&] { return sum(value, {dim}); });
  require_scale(value, gamma);
  const Value x = widened(value);
  const Value scale = rsqrt(mean(square(x), {dim}, true) + epsilon);
  return narrowed(x * scale * widened(gamma), value.dtype());
}

Value logsumexp(const Value& value, std::vector<int> dims, bool keep_dims) {
  require_valid(graph_of(value, "logsumexp"), [&] { return max(value, dims, keep_dims); });
  const Value x = widened(value);
  // An infinite maximum is not subtracted: the sum is infinite, or 0, by itself.
  const auto finite = [](const Value& largest) {
    return stop_gradient(select(isfinite(largest), largest, 0));
  };
  const Value kept = finite(max(x, dims, true));
  const Value total = log(sum(exp(x - kept), dims, keep_dims));
  return narrowed(total + (keep_dims ? kept : finite(max(x, dims))), value.dtype());
}

Value clip(const Value& value, const Value& least, const Value& most) {
  const Value above = value > most;
  const Value limited = select(above, most, value);
  return select(value < least, least, limited);
}

Value swiglu(const Value& gate, const Value& value) {
  require_valid(graph_of(gate, "swiglu"), [&] { return gate * value; });
  const Value opened = silu(widened(gate));
  return narrowed(opened * widened(value), gate.dtype());
}

namespace {

void check_labels(const Value& logits, const Value& labels, const CrossEntropyOptions& options) {
  const auto& graph = graph_of(logits, "cross_entropy");
  ir::require_given(labels, "cross_entropy");
  const auto fail = [&](const std::string& message) {
    throw ProgramError(fmt::format("in program '{}', cross_entropy: {}", graph->name, message));
  };
  if (graph_of(labels) != graph) fail("the labels must be a tensor of the logits' program");
  const ir::Node &of = graph->at(ir::id_of(logits)), &by = graph->at(ir::id_of(labels));
  if (of.weak || of.shape.empty() || !is_float(of.dtype)) {
    fail(ir::describe(*graph, ir::id_of(logits)) +
         "; logits are floats, a row of one for each class");
  }
  if (by.weak || (by.dtype != i32 && by.dtype != i64) ||
      by.shape != Shape(of.shape.begin(), of.shape.end() - 1)) {
    fail(fmt::format("{}; labels are numbers of classes in i32 or i64, one for each row of {}",
                     ir::describe(*graph, ir::id_of(labels)),
                     ir::describe(*graph, ir::id_of(logits))));
  }
  const auto classes = static_cast<int>(of.shape.size()) - 1;
  ir::require_layouts(
      logits, labels, "cross_entropy", [&](Placement of_logits, Placement of_labels) {
        if (of_logits == sliced(classes)) return of_labels == replicated;
        return of_logits == of_labels || of_logits == replicated || of_labels == replicated;
      });
  const std::int64_t most =
      by.dtype == i32 ? std::numeric_limits<std::int32_t>::max() : std::int64_t{1} << 53;
  if (options.ignored_label > most || options.ignored_label < -most) {
    fail(fmt::format("ignored_label is {}; labels of {} go up to {}", options.ignored_label,
                     to_string(by.dtype), most));
  }
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(fmt::format("label_smoothing is {}; it must be in [0, 1]", smoothing));
}

}  // namespace

Value cross_entropy(const Value& logits, const Value& labels, const CrossEntropyOptions& options) {
  check_labels(logits, labels, options);
  const Value x = widened(logits);
  const Dim classes = logits.shape().back();
  const Value numbers = ir::program_of(graph_of(logits)).iota({classes}, labels.dtype());
  const Value checked = ir::in_range(labels, classes, options.ignored_label);
  const Value is_label = equal(expand_dims(checked, {-1}), numbers);
  const Value picked = sum(select(is_label, x, 0), {-1});
  const Value total = logsumexp(x, {-1});
  Value rows = total - picked;
  if (options.label_smoothing != 0) {
    const Value even = total - mean(x, {-1});
    const Value kept = (1 - options.label_smoothing) * rows;
    rows = kept + options.label_smoothing * even;
  }
  // A label that is no class is no zero loss.
  const Value is_class = sum(select(is_label, 1, 0, x.dtype()), {-1}) > 0;
  const Value known = select(is_class, rows, std::numeric_limits<double>::quiet_NaN());
  const Value counts = not_equal(labels, options.ignored_label);
  const Value losses = sum(select(counts, known, 0));
  const Value count = sum(select(counts, 1, 0, x.dtype()));
  return losses / maximum(count, 1);
}

}  // namespace coconet
