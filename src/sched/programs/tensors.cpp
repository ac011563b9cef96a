// Steps of optimizers over tensors of a program that computes their gradients.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/composing.h"
#include "sched/patterns.h"
#include "sched/programs/averaged.h"

namespace coconet::programs {

namespace {

/// Checks what an application gave, and says what is wrong with it.
class Check {
 public:
  Check(std::string_view optimizer, const Program& program)
      : optimizer_(optimizer), program_(program), graph_(ir::graph_of(program)) {}

  void tensors(const std::vector<Value>& weights, const std::vector<Value>& gradients,
               const TrainingOptions& options) const {
    if (weights.empty()) fail("it was given no weights");
    if (weights.size() != gradients.size()) {
      fail(fmt::format("it was given {} weights and {} gradients; each weight has one",
                       weights.size(), gradients.size()));
    }
    std::set<int> known;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weight(weights[i], options);
      if (!known.insert(ir::id_of(weights[i])).second)
        fail(fmt::format("'{}' is given twice", weights[i].name()));
      gradient(gradients[i], weights[i]);
    }
  }

  void groups(const std::vector<ParameterGroup>& groups, const std::vector<Value>& weights,
              bool has_weight_decay, const TrainingOptions& options) const {
    for (const ParameterGroup& group : groups) {
      if (group.weight_decay && options.groups) {
        fail(
            fmt::format("the group '{}' has a weight_decay, and so has each buffer by `groups` of "
                        "the options; one of them decides",
                        group.names));
      }
      const std::string owner = fmt::format("{}, group '{}'", optimizer_, group.names);
      require_in_range(owner, "lr_scale", group.lr_scale, from_0);
      if (group.weight_decay) require_in_range(owner, "weight_decay", *group.weight_decay, from_0);
      if (group.weight_decay && !has_weight_decay)
        fail(fmt::format("the group '{}' has a weight_decay, which it does not", group.names));
      const auto is_member = [&](const Value& weight) {
        return sched::is_like(weight.name(), group.names);
      };
      if (std::ranges::any_of(weights, is_member)) continue;
      std::vector<std::string> names;
      for (const Value& weight : weights) names.push_back(weight.name());
      fail(fmt::format("no weight is like the group '{}'; they are {}", group.names,
                       fmt::join(names, ", ")));
    }
  }

  /// The scaler of a loss, of which no other step has taken the states.
  void scaler(const LossScaler& scaler) const {
    for (const Value* const value : {&scaler.scale, &scaler.state, &scaler.growth, &scaler.skipped})
      own(*value, "part of a LossScaler; programs::loss_scaler makes them");
    require_constants(optimizer_, scaler.constants);
    if (graph_->update_of(ir::id_of(scaler.state)) >= 0) {
      fail(
          fmt::format("'{}' serves another optimizer of the program already: one step updates all "
                      "weights whose loss a scaler scales",
                      scaler.state.name()));
    }
  }

  void outputs(const TrainingOptions& options) const {
    if (options.gradient_norm && graph_->find_output("gradient_norm") >= 0)
      fail("the program has an output 'gradient_norm' already; ask one optimizer for it");
  }

  /// A gradient of any shape and layout.
  void floats(const Value& gradient) const {
    own(gradient, "gradient");
    const ir::Node& node = graph_->at(ir::id_of(gradient));
    if (node.weak || !is_float(node.dtype))
      fail(describe(gradient) + "; gradients are tensors of floats");
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw ProgramError(
        fmt::format("in program '{}', {}: {}", program_.name(), optimizer_, message));
  }

 private:
  /// Of this program.
  void own(const Value& value, std::string_view what) const {
    if (value.is_empty()) {
      fail(fmt::format("an empty Value, which was declared and has not been assigned, is no {}",
                       what));
    }
    if (ir::graph_of(value) == nullptr) fail(fmt::format("a constant is no {}", what));
    if (ir::graph_of(value) != graph_)
      fail(fmt::format("'{}' is a value of another Program", value.name()));
  }

  void weight(const Value& value, const TrainingOptions& options) const {
    own(value, "weight");
    const ir::Node& node = graph_->at(ir::id_of(value));
    if (node.op != ir::Op::state) fail(describe(value) + "; weights are states, which it updates");
    if (!is_float(node.dtype)) fail(describe(value) + "; weights are of floats");
    if (std::ranges::find(node.layout, local) != node.layout.end()) {
      fail(describe(value) +
           "; weights are the same on every rank or sliced, so that ranks hold one model");
    }
    if (graph_->update_of(ir::id_of(value)) >= 0)
      fail(fmt::format("'{}' is updated already", value.name()));
    if (options.groups && !node.attributes.scattered) {
      fail(
          fmt::format("`groups` of the options are numbers for each buffer of a scattered weight, "
                      "and {} is none; give groups by name, ParameterOptions::groups",
                      describe(value)));
    }
  }

  void gradient(const Value& value, const Value& weight) const {
    own(value, "gradient");
    const ir::Node& node = graph_->at(ir::id_of(value));
    if (node.weak) fail(fmt::format("a number is no gradient of '{}'", weight.name()));
    const DType least = is_16_bit(weight.dtype()) ? DType::f32 : weight.dtype();
    if (node.shape == weight.shape() && node.layout == weight.layout() &&
        (node.dtype == weight.dtype() || node.dtype == least))
      return;
    const bool is_local = std::ranges::find(node.layout, local) != node.layout.end();
    fail(fmt::format("the gradient of {} is {}; it must have that shape, layout and dtype{}{}",
                     describe(weight), describe(value), least == weight.dtype() ? "" : ", or f32",
                     is_local ? ": all_reduce it over the ranks" : ""));
  }

  [[nodiscard]] std::string describe(const Value& value) const {
    return ir::describe(*graph_, ir::id_of(value));
  }

  std::string_view optimizer_;
  const Program& program_;
  const std::shared_ptr<ir::Graph>& graph_;
};

/// A weight's: one dtype for all where that has 32 bits or more.
Precision precision_of(const Value& weight, const ParameterOptions& parameters, std::size_t index,
                       const Check& check) {
  if (!is_16_bit(weight.dtype())) return weight.dtype();
  try {
    return mixed(weight.dtype(), parameters.master_weights, parameters.seed + index);
  } catch (const ProgramError& error) {
    check.fail(fmt::format("'{}': {}", weight.name(), error.what()));
  }
}

const ParameterGroup* group_of(const Value& weight, const std::vector<ParameterGroup>& groups) {
  const auto found = std::ranges::find_if(groups, [&](const ParameterGroup& group) {
    return sched::is_like(weight.name(), group.names);
  });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Value> add_steps(std::string_view name, const TrainingOptions& options,
                             Program& program, const std::vector<Value>& weights,
                             const std::vector<Value>& gradients,
                             const ParameterOptions& parameters, bool has_weight_decay,
                             const Formula& formula) {
  const Check check(name, program);
  check.tensors(weights, gradients, options);
  check.groups(parameters.groups, weights, has_weight_decay, options);
  check.outputs(options);
  if (parameters.scaler) check.scaler(*parameters.scaler);
  if (options.loss_scaling) {
    check.fail(
        "loss scaling is asked for by ParameterOptions::scaler, whose `scale` the loss is "
        "multiplied by; programs::loss_scaler makes it");
  }
  std::vector<Precision> precisions;
  DType widest = DType::f32;
  for (const Value& weight : weights) {
    precisions.push_back(precision_of(weight, parameters, precisions.size(), check));
    if (weight.dtype() == DType::f64) widest = DType::f64;
  }
  const std::shared_ptr<ir::Graph>& graph = ir::graph_of(program);
  const ir::ValueId before = graph->size();
  const ir::InScope none(*graph, "");  // names begin with those of the weights
  try {
    Step step(program, name, options, widest);
    std::vector<Training> tensors;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      tensors.emplace_back(program, step, precisions[i], weights[i], gradients[i],
                           weights[i].name() + ".", group_of(weights[i], parameters.groups));
    }
    step.prepare(tensors, parameters.scaler ? &*parameters.scaler : nullptr);
    std::vector<Value> results;
    for (Training& tensor : tensors) {
      const ir::InScope scope(*graph, tensor.scope);
      formula(tensor);
      results.push_back(tensor.result());
    }
    step.finish();
    return results;
  } catch (...) {
    graph->drop_from(before);
    throw;
  }
}

std::vector<Value> accumulate(Program& program, const std::vector<Value>& gradients) {
  const std::shared_ptr<ir::Graph>& graph = ir::graph_of(program);
  const Check check("accumulate", program);
  for (const Value& gradient : gradients) check.floats(gradient);
  const ir::ValueId before = graph->size();
  const ir::InScope none(*graph, "");
  try {
    std::vector<Value> sums;
    for (const Value& gradient : gradients) {
      const Value begins = equal(scalar_of(program, "first"), 1);
      const Value wide = ir::widened(gradient);
      const Value so_far = program.state(gradient.name() + ".sum", wide.dtype(), gradient.shape(),
                                         layout_of(gradient));
      const Value added = so_far + wide;
      // No product with 0: it would keep what was not a number.
      sums.push_back(update(so_far, select(begins, wide, added)));
    }
    return sums;
  } catch (...) {
    graph->drop_from(before);
    throw;
  }
}

#define COCONET_OPTIMIZER(name, Options, summary)                                               \
  Program name(const Mesh& mesh, Precision precision, Options options, Storage storage) {       \
    return averaged(checked_name(options), with_training(TrainingOptions{}, options), mesh,     \
                    precision, storage,                                                         \
                    [&](Training& training) { add_formula(training, options); });               \
  }                                                                                             \
  std::vector<Value> name(Program& program, const std::vector<Value>& weights,                  \
                          const std::vector<Value>& gradients, const Options& options,          \
                          const ParameterOptions& parameters) {                                 \
    return add_steps(checked_name(options), with_training(TrainingOptions{}, options), program, \
                     weights, gradients, parameters, has_weight_decay<Options>(),               \
                     [&](Training& training) { add_formula(training, options); });              \
  }
#include "coconet/optimizers.def"
#undef COCONET_OPTIMIZER

}  // namespace coconet::programs
