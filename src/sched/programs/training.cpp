// What the optimizers share. No expression here and in the optimizers makes values in two of its
// operands: compilers may evaluate those in either order, and a program must be the same whoever
// compiled it.
#include "sched/programs/training.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"

namespace coconet::programs {

namespace {

constexpr std::int64_t default_n = 1 << 20;

/// The axes of data parallelism, in the order in which gradients are averaged over them: the only
/// one; or "world"; or first "gpu", between ranks of a node, then "node".
std::vector<std::string> axes_of(const Mesh& mesh) {
  if (mesh.axes().size() == 1) return {mesh.axes().front().name};
  if (averages_by_nodes(mesh)) return {"gpu", "node"};
  return {"world"};
}

/// "adam_scattered"
std::string full_name(const std::string& name, Storage storage) {
  return storage == Storage::scattered ? name + std::string(scattered_suffix) : name;
}

/// Of gradients: every rank along the axes of data parallelism has its own.
Layout of_gradients(const Mesh& mesh) {
  std::vector<std::pair<std::string, Placement>> placements;
  for (const std::string& axis : axes_of(mesh)) placements.emplace_back(axis, local);
  return Layout::on(std::move(placements));
}

Value input_gradient(Program& program, const char* name, DType dtype, const Dim& n,
                     Storage storage) {
  const Layout layout = of_gradients(program.mesh());
  return storage == Storage::scattered ? program.scattered_input(name, dtype, n, layout)
                                       : program.input(name, dtype, {n}, layout);
}

Value stored_state(Program& program, const char* name, DType dtype, const Dim& n, Storage storage,
                   const Layout& layout) {
  return storage == Storage::scattered ? program.scattered_state(name, dtype, n, layout)
                                       : program.state(name, dtype, {n}, layout);
}

Value sum_of_gradients(Program& program, DType dtype, const Dim& n, Storage storage) {
  return stored_state(program, "g", dtype, n, storage, of_gradients(program.mesh()));
}

/// What a step averages over the ranks.
Value gradients(Program& program, Precision precision, const Dim& n, Storage storage,
                bool accumulation) {
  return accumulation ? sum_of_gradients(program, precision.master, n, storage)
                      : input_gradient(program, "g", precision.model, n, storage);
}

Value average(const Value& gradient, const Mesh& mesh) {
  Value average = gradient;
  for (const std::string& axis : axes_of(mesh)) average = all_reduce(average, mean, axis);
  return average.named("avg");
}

void require_constants(const std::string& optimizer, const TrainingOptions& options) {
  const LossScale& scale = options.loss_scale;
  require_in_range(optimizer, "max_norm", options.max_norm, from_0);
  require_in_range(optimizer, "max_value", options.max_value, from_0);
  require_in_range(optimizer, "init_scale", scale.init_scale, positive_f32);
  require_in_range(optimizer, "growth_factor", scale.growth_factor, above_1);
  require_in_range(optimizer, "backoff_factor", scale.backoff_factor, between_0_and_1);
  require_in_range(optimizer, "growth_interval", scale.growth_interval, from_1_to_2_24);
}

}  // namespace

bool averages_by_nodes(const Mesh& mesh) {
  return mesh.find("world") < 0 && mesh.find("gpu") >= 0 && mesh.find("node") >= 0;
}

Precision mixed(DType model, MasterWeights kept, std::uint64_t seed) {
  if (!is_16_bit(model)) {
    throw ProgramError(
        fmt::format("mixed precision is for a model in f16 or bf16, not in {}", to_string(model)));
  }
  if (kept != MasterWeights::copy && model != DType::bf16) {
    throw ProgramError(fmt::format(
        "master weights are kept as {} beside a model in bf16, not in {}; keep copies of them",
        kept == MasterWeights::none ? "nothing" : "remainders", to_string(model)));
  }
  Precision precision(model, DType::f32);
  precision.kept = kept;
  precision.seed = seed;
  return precision;
}

Training::Training(const std::string& name, const Mesh& mesh, Precision dtypes, Storage stored,
                   const TrainingOptions& asked)
    : program(full_name(name, stored), mesh),
      precision(dtypes),
      wide(dtypes.master == DType::f64 ? DType::f64 : DType::f32),
      storage(stored),
      n(program.dim("n", default_n)),
      g(gradients(program, precision, n, storage, asked.accumulation)),
      w(stored_state(program, "w", precision.model, n, storage, replicated)),
      lr(program.scalar("lr")),
      avg(average(g, mesh)),
      options(asked) {
  parameters = precision.mixed() ? master_weights() : loaded(w);
  require_constants(name, options);
  gradient = gradient_of_batch();
  if (options.groups) {
    lr_scale_ =
        widened(program.input("lr_scale", precision.master, {program.buffers(n)}, replicated));
  }
  if (options.loss_scaling) unscale();
  clip();
}

Value Training::gradient_of_batch() {
  if (options.accumulation)
    return (widened(avg) * (1 / program.scalar("microbatches"))).named("gradient");
  return avg.dtype() == wide ? avg : widened(avg).named("gradient");
}

Value Training::widened(const Value& value) const {
  return value.dtype() == wide ? value : cast(value, wide);
}

void Training::unscale() {
  const LossScale& constants = options.loss_scale;
  const Value scale = program.state("scale", DType::f32, {}, replicated);
  const Value growth = program.state("growth", DType::f32, {}, replicated);
  const Value failed = program.state("skipped", DType::f32, {}, replicated);
  const Value unset = equal(scale, 0);
  scale_ = select(unset, constants.init_scale, scale);
  const Value finite_ones = select(isfinite(gradient), 1, 0, DType::f32);
  finite = (min(finite_ones).named("finite") > 0);
  skipped = failed;
  const Value grown = (growth + 1);
  const Value grows = grown >= constants.growth_interval;
  const Value larger = constants.growth_factor * scale_;
  const Value may_grow = logical_and(grows, isfinite(larger));  // an infinite scale never halves
  const Value after_success = select(may_grow, larger, scale_);
  coconet::update(scale, select(*finite, after_success, constants.backoff_factor * scale_));
  const Value counted = select(grows, 0, grown);
  coconet::update(growth, select(*finite, counted, 0));
  coconet::update(failed, select(*finite, failed, failed + 1));
  gradient = gradient * number(1 / scale_);
}

void Training::clip() {
  if (options.max_value > 0) {
    const Value at_least = maximum(gradient, -options.max_value);
    gradient = minimum(at_least, options.max_value);
  }
  if (options.max_norm == 0 && !options.gradient_norm) return;
  // Of all parameters, whether or not they are scattered.
  const Value squares = sum(square(gradient)).named("gradient_squares");
  const Value size = sqrt(squares).named("gradient_norm");
  if (options.gradient_norm) program.output("gradient_norm", size);
  if (options.max_norm == 0) return;
  const Value factor = minimum(options.max_norm / (size + 1e-6), 1);
  gradient = gradient * number(factor);
}

State Training::master_weights() {
  if (precision.kept == MasterWeights::copy) return moment("master");
  if (precision.kept == MasterWeights::none) return {w, widened(w).named("master")};
  remainder_ = program.state("remainder", DType::i16, {n}, replicated);
  return {w, join_halves(w, *remainder_).named("master")};
}

const Value& Training::given_t() {
  if (!given_t_) given_t_ = program.scalar("t");
  return *given_t_;
}

Value Training::t() {
  if (!t_) t_ = skipped ? given_t() - cast(*skipped, DType::f64) : given_t();
  return *t_;
}

Value Training::number(const Value& value) const {
  const bool is_number = !ir::graph_of(value) || ir::graph_of(value)->at(ir::id_of(value)).weak;
  return is_number ? value : widened(value);
}

Value Training::rate(const Value& value) const {
  const Value one = number(value);
  return options.groups ? one * lr_scale_ : one;
}

Value Training::weight_decay(double option) {
  if (!options.groups) return option;
  if (!weight_decay_) {
    weight_decay_ =
        widened(program.input("weight_decay", precision.master, {program.buffers(n)}, replicated));
  }
  return *weight_decay_;
}

Value Training::if_taken(const Value& value, const Value& before) const {
  return finite ? select(*finite, value, before) : value;
}

Value Training::update(const State& state, const Value& value) const {
  const Value after = if_taken(value, state);
  const DType stored = state.stored.dtype();
  if (stored == wide) return coconet::update(state.stored, after);
  coconet::update(state.stored, cast(after, stored));
  return after;
}

Value Training::squares(const Value& value, const std::string& name) const {
  const Value squared = square(value);
  const Value total = storage == Storage::scattered ? sum(squared, per_buffer) : sum(squared);
  return total.named(name + "_squares");
}

Value Training::regularised(double weight_decay) {
  if (!options.groups && weight_decay == 0) return gradient;
  const Value decay = this->weight_decay(weight_decay);
  return gradient + decay * parameters;
}

Value Training::decayed(double weight_decay) {
  if (!options.groups && weight_decay == 0) return parameters;
  const Value decay = this->weight_decay(weight_decay);
  const Value decays = rate(lr) * decay;
  return parameters * (1 - decays);
}

void Training::finish(const Value& value) {
  const ir::Graph& graph = *ir::graph_of(program);
  for (const ir::Node& node : graph.nodes()) {
    // The model reads its parameters whole; nothing but the step reads the rest.
    if (node.op == ir::Op::state && node.name != w.name() && node.name != g.name() &&
        !node.shape.empty())
      program.may_slice({node.name});
  }
  if (!precision.mixed()) {
    update(parameters, value);
  } else if (precision.kept == MasterWeights::copy) {
    const Value updated = update(parameters, value);
    coconet::update(w, cast(updated, precision.model));
  } else if (precision.kept == MasterWeights::remainders) {
    const Value updated = if_taken(value, parameters);
    coconet::update(w, upper_half(updated));
    coconet::update(*remainder_, lower_half(updated));
  } else {
    const Value rounded = stochastic_cast(value, precision.model, precision.seed, given_t());
    coconet::update(w, if_taken(rounded, w));
  }
}

Program accumulate(const Mesh& mesh, Precision precision, Storage storage) {
  Program program(full_name("accumulate", storage), mesh);
  const Dim n = program.dim("n", default_n);
  const Value given = input_gradient(program, "gradient", precision.model, n, storage);
  const Value so_far = sum_of_gradients(program, precision.master, n, storage);
  const Value first = program.scalar("first");
  const Value added = precision.mixed() ? cast(given, precision.master) : given;
  // No product with 0: it would keep what was not a number.
  coconet::update(so_far, select(equal(first, 1), added, so_far + added));
  return program;
}

Moments update_moments(Training& training, const Value& gradient, double beta1, double beta2) {
  const State m = training.moment("m");
  const State v = training.moment("v");
  const Value t = training.t();
  const Value m_kept = beta1 * m;
  const Value m1 = training.update(m, m_kept + (1 - beta1) * gradient);
  const Value v_kept = beta2 * v;
  const Value v1 = training.update(v, v_kept + (1 - beta2) * gradient * gradient);
  return {m1, v1, t};
}

Value adam_denominator(const Training& training, const Moments& moments, double beta2, double eps) {
  const Value root = sqrt(moments.v);
  const Value correction = sqrt(1 - pow(beta2, moments.t));
  return root * training.number(1 / correction) + eps;
}

}  // namespace coconet::programs
