// Optimizers as programs of their own: of one tensor, or one list of buffers, whose gradient is
// averaged over the ranks.
#include "sched/programs/averaged.h"

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

Value average(const Value& gradient, const Mesh& mesh) {
  Value average = gradient;
  for (const std::string& axis : axes_of(mesh)) average = all_reduce(average, mean, axis);
  return average.named("avg");
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

Program averaged(std::string_view name, const TrainingOptions& options, const Mesh& mesh,
                 Precision precision, Storage storage, const Formula& formula) {
  Program program(full_name(std::string(name), storage), mesh);
  const Dim n = program.dim("n", default_n);
  const Value g = options.accumulation ? sum_of_gradients(program, precision.master, n, storage)
                                       : input_gradient(program, "g", precision.model, n, storage);
  const Value w = stored_state(program, "w", precision.model, n, storage, replicated);
  const DType wide = precision.master == DType::f64 ? DType::f64 : DType::f32;
  Step step(program, name, options, wide);
  std::vector<Training> tensors;
  tensors.emplace_back(program, step, precision, w, average(g, mesh), "", nullptr);
  if (options.loss_scaling) {
    const LossScaler scaler = made_scaler(program, options.loss_scale);
    step.prepare(tensors, &scaler);
  } else {
    step.prepare(tensors, nullptr);
  }
  formula(tensors.front());
  step.finish();
  return program;
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

}  // namespace coconet::programs
