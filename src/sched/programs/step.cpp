// No expression here and in the optimizers makes values in two of its operands: compilers may
// evaluate those in either order, and a program must be the same whoever compiled it.
#include "sched/programs/step.h"

#include "sched/programs/training.h"

namespace coconet::programs {

Value scalar_of(Program& program, const std::string& name) {
  const auto& graph = ir::graph_of(program);
  const ir::InScope none(*graph, "");
  const ir::ValueId known = graph->find(name);
  if (known >= 0 && graph->at(known).op == ir::Op::scalar) return ir::value_of(graph, known);
  return program.scalar(name);
}

void require_constants(std::string_view owner, const LossScale& constants) {
  require_in_range(owner, "init_scale", constants.init_scale, positive_f32);
  require_in_range(owner, "growth_factor", constants.growth_factor, above_1);
  require_in_range(owner, "backoff_factor", constants.backoff_factor, between_0_and_1);
  require_in_range(owner, "growth_interval", constants.growth_interval, from_1_to_2_24);
}

LossScaler made_scaler(Program& program, const LossScale& constants) {
  LossScaler scaler;
  scaler.constants = constants;
  scaler.state = program.state("scale", DType::f32, {}, replicated);
  scaler.growth = program.state("growth", DType::f32, {}, replicated);
  scaler.skipped = program.state("skipped", DType::f32, {}, replicated);
  const Value unset = equal(scaler.state, 0);
  scaler.scale = select(unset, constants.init_scale, scaler.state);
  return scaler;
}

LossScaler loss_scaler(Program& program, const LossScale& constants) {
  require_constants("loss_scaler", constants);
  const auto& graph = ir::graph_of(program);
  const ir::InScope none(*graph, "");
  const ir::ValueId before = graph->size();
  try {
    return made_scaler(program, constants);
  } catch (...) {
    graph->drop_from(before);
    throw;
  }
}

Step::Step(Program& program, std::string_view name, const TrainingOptions& asked, DType widest)
    : optimizer(name),
      options(asked),
      wide(widest),
      lr(scalar_of(program, "lr")),
      program_(program) {
  require_in_range(optimizer, "max_norm", options.max_norm, from_0);
  require_in_range(optimizer, "max_value", options.max_value, from_0);
  require_constants(optimizer, options.loss_scale);
}

const Value& Step::given_t() {
  if (!given_t_) given_t_ = scalar_of(program_, "t");
  return *given_t_;
}

const Value& Step::t() {
  const ir::InScope none(*ir::graph_of(program_), "");
  if (!t_) t_ = skipped_ ? given_t() - cast(*skipped_, DType::f64) : given_t();
  return *t_;
}

const Value& Step::per_microbatch() {
  const ir::InScope none(*ir::graph_of(program_), "");
  if (!per_microbatch_) per_microbatch_ = 1 / scalar_of(program_, "microbatches");
  return *per_microbatch_;
}

Value Step::scaled(const Value& value, double factor) {
  if (factor == 1) return value;
  const ir::InScope none(*ir::graph_of(program_), "");
  const std::pair key(ir::id_of(value), factor);
  if (!scaled_.contains(key)) scaled_[key] = value * factor;
  return scaled_[key];
}

Value Step::named(const Value& value, const std::string& name) const {
  const ir::Graph& graph = *ir::graph_of(program_);
  return graph.name_free(graph.scope + name) ? value.named(name) : value;
}

void Step::prepare(std::vector<Training>& tensors, const LossScaler* scaler) {
  if (scaler != nullptr) unscale(tensors, *scaler);
  clip(tensors);
}

void Step::unscale(std::vector<Training>& tensors, const LossScaler& scaler) {
  const LossScale& constants = scaler.constants;
  Value least;
  for (const Training& tensor : tensors) {
    const ir::InScope scope(*ir::graph_of(program_), tensor.scope);
    const Value finite_ones = select(isfinite(tensor.gradient), 1, 0, DType::f32);
    const Value all = min(finite_ones);
    least = least.is_empty() ? all : minimum(least, all);
  }
  finite_ = (named(least, "finite") > 0);
  skipped_ = scaler.skipped;
  const Value grown = (scaler.growth + 1);
  const Value grows = grown >= constants.growth_interval;
  const Value larger = constants.growth_factor * scaler.scale;
  const Value may_grow = logical_and(grows, isfinite(larger));  // an infinite scale never halves
  const Value after_success = select(may_grow, larger, scaler.scale);
  const Value after_failure = constants.backoff_factor * scaler.scale;
  coconet::update(scaler.state, select(*finite_, after_success, after_failure));
  const Value counted = select(grows, 0, grown);
  coconet::update(scaler.growth, select(*finite_, counted, 0));
  const Value failed = scaler.skipped + 1;
  coconet::update(scaler.skipped, select(*finite_, scaler.skipped, failed));
  for (Training& tensor : tensors) {
    const Value factor = once([&] { return 1 / scaler.scale; });
    const ir::InScope scope(*ir::graph_of(program_), tensor.scope);
    const Value inverse = tensor.number(factor);
    tensor.gradient = tensor.gradient * inverse;
  }
}

void Step::clip(std::vector<Training>& tensors) {
  if (options.max_value > 0) {
    for (Training& tensor : tensors) {
      const ir::InScope scope(*ir::graph_of(program_), tensor.scope);
      const Value at_least = maximum(tensor.gradient, -options.max_value);
      tensor.gradient = minimum(at_least, options.max_value);
    }
  }
  if (options.max_norm == 0 && !options.gradient_norm) return;
  // Of all parameters, whether or not they are scattered.
  Value squares;
  for (const Training& tensor : tensors) {
    const ir::InScope scope(*ir::graph_of(program_), tensor.scope);
    const Value own = sum(square(tensor.gradient));
    const Value widened = own.dtype() == wide ? own : cast(own, wide);
    squares = squares.is_empty() ? widened : squares + widened;
  }
  const Value size = named(sqrt(named(squares, "gradient_squares")), "gradient_norm");
  norm_ = size;
  if (options.max_norm == 0) return;
  const Value factor = minimum(options.max_norm / (size + 1e-6), 1);
  for (Training& tensor : tensors) {
    const ir::InScope scope(*ir::graph_of(program_), tensor.scope);
    tensor.gradient = tensor.gradient * tensor.number(factor);
  }
}

void Step::finish() {
  if (options.gradient_norm) program_.output("gradient_norm", *norm_);
}

Value Step::if_taken(const Value& value, const Value& before) const {
  return finite_ ? select(*finite_, value, before) : value;
}

}  // namespace coconet::programs
