// What the optimizers share. No expression here and in the optimizers makes values in two of its
// operands: compilers may evaluate those in either order, and a program must be the same whoever
// compiled it.
#include "sched/programs/training.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "coconet/error.h"

namespace coconet::programs {

namespace {

constexpr std::int64_t default_n = 1 << 20;

/// The axes of data parallelism, in the order in which gradients are averaged over them: the only
/// one; or "world"; or first "gpu", between ranks of a node, then "node".
std::vector<std::string> axes_of(const Mesh& mesh) {
  if (mesh.axes().size() == 1) return {mesh.axes().front().name};
  if (mesh.find("world") < 0 && mesh.find("gpu") >= 0 && mesh.find("node") >= 0)
    return {"gpu", "node"};
  return {"world"};
}

/// "adam_mixed_scattered"
std::string full_name(const std::string& name, Precision precision, Storage storage) {
  return name + (precision.mixed() ? "_mixed" : "") +
         (storage == Storage::scattered ? "_scattered" : "");
}

Value gradients(Program& program, DType dtype, const Dim& n, Storage storage) {
  std::vector<std::pair<std::string, Placement>> placements;
  for (const std::string& axis : axes_of(program.mesh())) placements.emplace_back(axis, local);
  const Layout layout = Layout::on(std::move(placements));
  return storage == Storage::scattered ? program.scattered_input("g", dtype, n, layout)
                                       : program.input("g", dtype, {n}, layout);
}

Value average(const Value& gradient, const Mesh& mesh) {
  Value average = gradient;
  for (const std::string& axis : axes_of(mesh)) average = all_reduce(average, mean, axis);
  return average.named("avg");
}

Value weights(Program& program, DType dtype, const Dim& n, Storage storage) {
  return storage == Storage::scattered ? program.scattered_state("w", dtype, n, replicated)
                                       : program.state("w", dtype, {n}, replicated);
}

}  // namespace

Precision mixed(DType model) {
  if (!is_16_bit(model)) {
    throw ProgramError(fmt::format(
        "mixed precision keeps f32 copies of a model in f16 or bf16, not in {}", to_string(model)));
  }
  return {model, DType::f32};
}

Training::Training(const std::string& name, const Mesh& mesh, Precision dtypes, Storage stored)
    : program(full_name(name, dtypes, stored), mesh),
      precision(dtypes),
      storage(stored),
      n(program.dim("n", default_n)),
      g(gradients(program, precision.model, n, storage)),
      w(weights(program, precision.model, n, storage)),
      lr(program.scalar("lr")),
      avg(average(g, mesh)),
      parameters(precision.mixed() ? moment("master") : w),
      gradient(precision.mixed() ? cast(avg, precision.master).named("gradient") : avg) {}

Value Training::squares(const Value& value, const std::string& name) const {
  const Value wide = size_of(value.dtype()) == 2 ? cast(value, DType::f32) : value;
  const Value squared = square(wide);
  const Value total = storage == Storage::scattered ? sum(squared, per_buffer) : sum(squared);
  return total.named(name + "_squares");
}

Value Training::regularised(double weight_decay) const {
  return weight_decay == 0 ? gradient : gradient + weight_decay * parameters;
}

Value Training::decayed(double weight_decay) const {
  return weight_decay == 0 ? parameters : parameters * (1 - lr * weight_decay);
}

void Training::finish(const Value& value) {
  const Value updated = update(parameters, value);
  if (precision.mixed()) update(w, cast(updated, precision.model));
}

void require_in_range(const char* optimizer,
                      std::initializer_list<Hyperparameter> hyperparameters) {
  for (const Hyperparameter& one : hyperparameters) {
    if (one.range.contains(one.value)) continue;
    throw ProgramError(
        fmt::format("{}: {} is {}; it must be {}", optimizer, one.name, one.value, one.range.text));
  }
}

Moments update_moments(Training& training, const Value& gradient, double beta1, double beta2) {
  const Value m = training.moment("m");
  const Value v = training.moment("v");
  const Value t = training.program.scalar("t");
  const Value m_kept = beta1 * m;
  const Value m1 = update(m, m_kept + (1 - beta1) * gradient);
  const Value v_kept = beta2 * v;
  const Value v1 = update(v, v_kept + (1 - beta2) * gradient * gradient);
  return {m1, v1, t};
}

Value adam_denominator(const Moments& moments, double beta2, double eps) {
  const Value root = sqrt(moments.v);
  return root / sqrt(1 - pow(beta2, moments.t)) + eps;
}

}  // namespace coconet::programs
