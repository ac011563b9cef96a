// Reverse mode on the graph: from the loss back, each value's contributions are added up, and its
// op hands the sum on to its operands.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/gradients/adjoint.h"
#include "ir/gradients/rewrite.h"
#include "ir/ops/infer.h"

namespace coconet {

namespace ir {

namespace {

class Walk {
 public:
  Walk(const Value& loss, const std::vector<Value>& of)
      : graph_(graph_of(loss)),
        loss_(id_of(loss)),
        depends_(graph_->nodes().size(), 0),
        gradients_(graph_->nodes().size()) {
    contributions_.to.resize(graph_->nodes().size());
    for (const Value& value : of) depends_[id_of(value)] = asked;
    for (ValueId id = 0; id <= loss_; ++id) {
      const Node& node = graph_->at(id);
      const bool ends = node.weak || !is_float(node.dtype) || node.op == Op::stop_gradient;
      if (depends_[id] || ends) continue;
      depends_[id] =
          std::ranges::any_of(node.operands, [&](ValueId from) { return depends_[from] != 0; });
    }
  }

  /// The gradients with respect to `of`, each in the dtype, shape and layout of its value.
  std::vector<Value> run(const std::vector<Value>& of) {
    contributions_.to[loss_].emplace_back(1);
    for (ValueId id = loss_; id >= 0; --id) {
      if (!depends_[id] || contributions_.to[id].empty()) continue;
      hand_on(id);
      contributions_.to[id].clear();
    }
    std::vector<ValueId> found;
    for (const Value& value : of) found.push_back(id_of(gradient_of(value)));
    found = rewrite_from(*graph_, first_made_, contributions_.in_order, found);
    graph_->scope.clear();  // the names begin with those of `of`
    std::vector<Value> named;
    for (std::size_t i = 0; i < of.size(); ++i) {
      const bool has_name = found[i] < first_made_ || graph_->at(found[i]).user_named;
      // A value that has a name, or is another gradient, is expanded to one of its own.
      Value gradient = value_of(graph_, found[i]);
      if (has_name) gradient = expanded(graph_, gradient, Node(graph_->at(found[i])));
      named.push_back(gradient.named(free_name(of[i].name() + ".grad")));
    }
    return named;
  }

 private:
  static constexpr char asked = 2;

  Value gradient_of(const Value& value) {
    const Node node = graph_->at(id_of(value));
    const Value& known = gradients_[id_of(value)];
    if (known.is_empty()) {
      throw ProgramError(fmt::format(
          "in program '{}', the gradient of '{}' with respect to '{}': the loss does not depend on "
          "'{}'{}",
          graph_->name, graph_->at(loss_).name, node.name, node.name,
          id_of(value) > loss_ ? ", which is made after it" : ""));
    }
    return made_local(whole_like(graph_, known, node), node.layout);
  }

  /// Adds up what has reached `id`, and has its op hand that on.
  void hand_on(ValueId id) {
    const Node node = graph_->at(id);
    // What is gathered from slices needs their gradient, rather than that of the whole.
    const Placements target =
        node.op == Op::all_gather ? graph_->at(node.operands.front()).layout : node.layout;
    const bool leads_on =
        std::ranges::any_of(node.operands, [&](ValueId from) { return depends_[from] != 0; });
    Value gradient;
    if (depends_[id] == asked) gradient = gradients_[id] = total(id, node.layout);
    if (!leads_on) return;
    if (gradient.is_empty() || target != node.layout) gradient = total(id, target);
    Adjoint at(graph_, id, gradient, depends_, contributions_);
    graph_->scope = scope_of(node);
    switch (node.op) {
#define COCONET_STRUCTURAL(name, ...) \
  case Op::name:                      \
    return adjoint_##name(at);
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
      default:
        return adjoint_pointwise(at);
    }
  }

  /// All contributions to `id`, added up over those and, where they are of each rank's own and
  /// `layout` is not, over ranks: converted along an axis at a time, once. What is sliced or local
  /// in `layout` may come out replicated, and of fewer dimensions.
  Value total(ValueId id, Placements layout) {  // NOLINT: a copy, as what is appended moves nodes
    const DType dtype = graph_->at(id).dtype;
    const auto rank = static_cast<int>(graph_->at(id).shape.size());
    std::vector<Value> terms = contributions_.to[id];
    // What several readers send adds up in f32, to be rounded once.
    for (Value& term : terms) term = terms.size() > 1 ? widened(term) : narrowed(term, dtype);
    for (int axis = static_cast<int>(layout.size()) - 1; axis >= 0; --axis) {
      terms = merged(std::move(terms), rank);
      for (Value& term : terms) term = converted(term, axis, layout[axis], rank);
    }
    Value result = terms.front();
    for (std::size_t i = 1; i < terms.size(); ++i) result = result + terms[i];
    result = narrowed(result, dtype);
    contributions_.note(result);
    return result;
  }

  /// The placement of `term` along `axis`, with dimensions counted as in a tensor of `rank` ones,
  /// which it broadcasts to.
  static Placement placement(const Value& term, std::size_t axis, int rank) {
    Placement placement = term.layout()[axis];
    if (placement.kind == Placement::Kind::sliced)
      placement.dim += rank - static_cast<int>(term.shape().size());
    return placement;
  }

  /// One term for each layout, and one for all numbers.
  std::vector<Value> merged(std::vector<Value> terms, int rank) const {
    std::vector<Value> sums;
    for (Value& term : terms) {
      const auto alike = [&](const Value& sum) {
        if (is_number(sum) || is_number(term)) return is_number(sum) && is_number(term);
        for (std::size_t axis = 0; axis < graph_->mesh.axes().size(); ++axis) {
          if (placement(sum, axis, rank) != placement(term, axis, rank)) return false;
        }
        return true;
      };
      const auto found = std::ranges::find_if(sums, alike);
      if (found == sums.end()) {
        sums.push_back(std::move(term));
      } else {
        *found = *found + term;
      }
    }
    return sums;
  }

  /// `term` of a gradient with `rank` dimensions, placed along `axis` as is wanted or replicated.
  Value converted(Value term, int axis, Placement wanted, int rank) const {
    if (is_number(term)) return term;
    const std::string& name = graph_->mesh.axes()[axis].name;
    const Placement have = placement(term, static_cast<std::size_t>(axis), rank);
    if (have == replicated || have == wanted || wanted == local) return term;
    const int dim = wanted.dim - (rank - static_cast<int>(term.shape().size()));
    const bool has_slices =
        wanted.kind == Placement::Kind::sliced && dim >= 0 && !(term.shape()[dim] == Dim(1));
    // Slices along later axes lie inside those along this one: they are put together first.
    for (int inner = static_cast<int>(graph_->mesh.axes().size()) - 1; inner > axis; --inner) {
      const Placement inside = term.layout()[inner];
      const bool within =
          (have != local && inside == term.layout()[axis]) || (has_slices && inside == sliced(dim));
      if (within) term = all_gather(term, graph_->mesh.axes()[inner].name);
    }
    if (have == local)
      return has_slices ? reduce_scatter(term, sum, dim, name) : all_reduce(term, sum, name);
    return has_slices ? all_to_all(term, dim, name) : all_gather(term, name);
  }

  [[nodiscard]] std::string free_name(const std::string& wanted) const {
    std::string name = wanted;
    for (int number = 2; !graph_->name_free(name); ++number)
      name = fmt::format("{}.{}", wanted, number);
    return name;
  }

  const std::shared_ptr<Graph> graph_;
  const ValueId loss_;
  const ValueId first_made_ = graph_->size();
  Indexed<char> depends_;  ///< on a value that is asked for, by value
  Contributions contributions_;
  Indexed<Value> gradients_;  ///< of those that are asked for
};

[[noreturn]] void fail_gradients(const Graph& graph, const std::string& message) {
  throw ProgramError(fmt::format("in program '{}', gradients: {}", graph.name, message));
}

void check_loss(const Graph& graph, const Node& loss) {
  if (loss.weak) {
    fail_gradients(graph, operand_text(graph, loss) + "; the loss is a tensor of one element");
  }
  if (!is_float(loss.dtype))
    fail_gradients(graph, operand_text(graph, loss) + "; the loss must be of floats");
  if (std::ranges::any_of(loss.shape, [](const Dim& dim) { return !(dim == Dim(1)); })) {
    fail_gradients(graph, operand_text(graph, loss) +
                              "; the loss must have one element: take the sum or the mean of it");
  }
  for (std::size_t axis = 0; axis < loss.layout.size(); ++axis) {
    if (loss.layout[axis] == replicated) continue;
    fail_gradients(graph, operand_text(graph, loss) + "; the loss must be one number for all " +
                              "ranks: all_reduce it along '" + graph.mesh.axes()[axis].name +
                              "', sum or mean");
  }
}

void check_asked(const std::shared_ptr<Graph>& graph, const Value& value) {
  if (value.is_empty())
    fail_gradients(*graph, "an empty Value, which was declared and has not been assigned");
  if (graph_of(value) == nullptr) fail_gradients(*graph, "a constant has no gradient");
  if (graph_of(value) != graph) {
    fail_gradients(*graph, fmt::format("'{}' is of program '{}', which is another Program",
                                       value.name(), graph_of(value)->name));
  }
  const Node& node = graph->at(id_of(value));
  if (node.weak) {
    fail_gradients(*graph, operand_text(*graph, node) +
                               "; gradients are of tensors: make it a state or an input of one "
                               "element");
  }
  if (!is_float(node.dtype))
    fail_gradients(*graph, operand_text(*graph, node) + "; only floats have gradients");
}

}  // namespace

}  // namespace ir

std::vector<Value> gradients(const Value& loss, const std::vector<Value>& of) {
  if (loss.is_empty() || ir::graph_of(loss) == nullptr) {
    throw ProgramError(loss.is_empty()
                           ? "gradients was given an empty Value, which was declared and has not "
                             "been assigned, as the loss"
                           : "gradients was given a constant as the loss; it takes a tensor");
  }
  const auto& graph = ir::graph_of(loss);
  ir::check_loss(*graph, graph->at(ir::id_of(loss)));
  for (const Value& value : of) ir::check_asked(graph, value);
  const ir::ValueId before = graph->size();
  const ir::InScope none(*graph, "");
  try {
    return ir::Walk(loss, of).run(of);
  } catch (...) {
    graph->drop_from(before);  // the program stays as it was
    throw;
  }
}

}  // namespace coconet
