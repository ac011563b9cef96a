// What the formulas of the optimizers share (step.cpp has the rule for expressions).
#include "sched/programs/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"

namespace coconet::programs {

Layout layout_of(const Value& value) {
  std::vector<std::pair<std::string, Placement>> placements;
  for (std::size_t axis = 0; axis < value.layout().size(); ++axis)
    placements.emplace_back(ir::graph_of(value)->mesh.axes()[axis].name, value.layout()[axis]);
  return Layout::on(std::move(placements));
}

Training::Training(Program& of, Step& shared, Precision dtypes, const Value& weights,
                   const Value& given, std::string named_in, const ParameterGroup* group)
    : program(of),
      step(shared),
      precision(dtypes),
      wide(dtypes.master == DType::f64 ? DType::f64 : DType::f32),
      w(weights),
      lr(step.lr),
      scope(std::move(named_in)),
      scattered_(ir::graph_of(w)->at(ir::id_of(w)).attributes.scattered) {
  const ir::InScope in_scope(*ir::graph_of(program), scope);
  if (group != nullptr) group_ = *group;
  parameters = precision.mixed() ? master_weights() : loaded(w);
  gradient = of_batch(given);
  if (step.options.groups) lr_scale_ = of_buffers("lr_scale");
}

Value Training::of_batch(const Value& given) const {
  if (step.options.accumulation) {
    const Value one = step.per_microbatch();
    return named(widened(given) * one, "gradient");
  }
  return given.dtype() == wide ? given : named(widened(given), "gradient");
}

Value Training::widened(const Value& value) const {
  return value.dtype() == wide ? value : cast(value, wide);
}

Value Training::state(const char* name, DType dtype,
                      Shape shape) {  // NOLINT: a copy, as making it moves values
  // What has another shape, of numbers of all parameters, every rank has whole.
  const Layout layout = shape == w.shape() ? layout_of(w) : replicated;
  const Value made = program.state(name, dtype, shape, layout);
  const bool is_replicated = std::ranges::find(made.layout(), replicated) != made.layout().end();
  if (is_replicated && !shape.empty()) program.may_slice({made.name()});
  return made;
}

Value Training::of_buffers(const char* name) {
  const Dim buffers = program.buffers(w.shape().front());
  return widened(program.input(name, precision.master, {buffers}, replicated));
}

State Training::master_weights() {
  if (precision.kept == MasterWeights::copy) return moment("master");
  if (precision.kept == MasterWeights::none) return {w, named(widened(w), "master")};
  remainder_ = state("remainder", DType::i16, w.shape());
  return {w, named(join_halves(w, *remainder_), "master")};
}

Value Training::number(const Value& value) const {
  const bool is_number = !ir::graph_of(value) || ir::graph_of(value)->at(ir::id_of(value)).weak;
  return is_number ? value : widened(value);
}

Value Training::rate(const Value& value) const {
  const Value one = number(group_ ? step.scaled(value, group_->lr_scale) : value);
  return step.options.groups ? one * lr_scale_ : one;
}

bool Training::decays(double option) const {
  return step.options.groups || (group_ ? group_->weight_decay.value_or(option) : option) != 0;
}

Value Training::weight_decay(double option) {
  if (!step.options.groups) return group_ ? group_->weight_decay.value_or(option) : option;
  if (!weight_decay_) weight_decay_ = of_buffers("weight_decay");
  return *weight_decay_;
}

Value Training::written(const Value& state, const Value& value) {
  const DType stored = state.dtype();
  return coconet::update(state, value.dtype() == stored ? value : cast(value, stored));
}

Value Training::update(const State& state, const Value& value) const {
  const Value after = step.if_taken(value, state);
  const Value stored = written(state.stored, after);
  return stored.dtype() == wide ? stored : after;
}

Value Training::squares(const Value& value, const std::string& name) const {
  const Value squared = square(value);
  return named(scattered_ ? sum(squared, per_buffer) : sum(squared), name + "_squares");
}

Value Training::regularised(double weight_decay) {
  if (!decays(weight_decay)) return gradient;
  const Value decay = this->weight_decay(weight_decay);
  return gradient + decay * parameters;
}

Value Training::decayed(double weight_decay) {
  if (!decays(weight_decay)) return parameters;
  const Value decay = this->weight_decay(weight_decay);
  const Value decays = rate(lr) * decay;
  return parameters * (1 - decays);
}

void Training::finish(const Value& value) {
  if (!precision.mixed()) {
    result_ = written(w, step.if_taken(value, parameters));
  } else if (precision.kept == MasterWeights::copy) {
    const Value updated = update(parameters, value);
    result_ = written(w, updated);
  } else if (precision.kept == MasterWeights::remainders) {
    const Value updated = step.if_taken(value, parameters);
    result_ = coconet::update(w, upper_half(updated));
    coconet::update(*remainder_, lower_half(updated));
  } else {
    const Value rounded = stochastic_cast(value, precision.model, precision.seed, step.given_t());
    result_ = coconet::update(w, step.if_taken(rounded, w));
  }
}

Moments update_moments(Training& training, const Value& gradient, double beta1, double beta2) {
  const State m = training.moment("m");
  const State v = training.moment("v");
  const Value t = training.step.t();
  const Value m_kept = beta1 * m;
  const Value m1 = training.update(m, m_kept + (1 - beta1) * gradient);
  const Value v_kept = beta2 * v;
  const Value v1 = training.update(v, v_kept + (1 - beta2) * gradient * gradient);
  return {m1, v1, t};
}

Value adam_denominator(const Training& training, const Moments& moments, double beta2, double eps) {
  const Value root = sqrt(moments.v);
  const Value factor = training.step.once([&] {
    const Value correction = sqrt(1 - pow(beta2, moments.t));
    return 1 / correction;
  });
  return root * training.number(factor) + eps;
}

}  // namespace coconet::programs
