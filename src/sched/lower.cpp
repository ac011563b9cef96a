// Lowering: a scheduled program becomes a plan.
#include <algorithm>
#include <set>

#include "coconet/error.h"
#include "sched/expand.h"
#include "sched/groups.h"
#include "sched/kernels.h"
#include "sched/plan.h"
#include "sched/rewrite.h"

namespace coconet::sched {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// Gives buffers to the values that outlive the step that makes them, and describes the steps.
class Lowering {
 public:
  explicit Lowering(Graph graph) : users_(graph.users()), groups_(make_groups(graph)) {
    plan_.graph = std::move(graph);
    buffer_of_.assign(plan_.graph.nodes.size(), -1);
  }

  Plan run() {
    place_application_tensors();
    place_crossing_values();
    for (const Group& group : groups_.groups) {
      if (group.kind == Group::Kind::library) {
        plan_.steps.emplace_back(library_step(group));
      } else {
        plan_.steps.emplace_back(kernel_step(group));
      }
    }
    return std::move(plan_);
  }

 private:
  const Graph& graph() const { return plan_.graph; }
  [[nodiscard]] int group_of(ValueId id) const { return groups_.of[static_cast<std::size_t>(id)]; }
  [[nodiscard]] BufferId& buffer_of(ValueId id) { return buffer_of_[static_cast<std::size_t>(id)]; }

  BufferId add_buffer(const std::string& name, PlanBuffer::Role role, ValueId value) {
    const Node& node = graph().at(value);
    plan_.buffers.push_back({name, role, node.dtype, node.shape, node.layout});
    const auto buffer = static_cast<BufferId>(plan_.buffers.size()) - 1;
    if (role != PlanBuffer::Role::temporary) plan_.named[name] = buffer;
    return buffer;
  }

  void place_application_tensors() {
    for (ValueId id = 0; id < graph().size(); ++id) {
      const Node& node = graph().at(id);
      if (node.op == Op::input) buffer_of(id) = add_buffer(node.name, PlanBuffer::Role::input, id);
      if (node.op == Op::state) buffer_of(id) = add_buffer(node.name, PlanBuffer::Role::state, id);
    }
    for (ValueId id = 0; id < graph().size(); ++id) {
      const Node& node = graph().at(id);
      if (node.op != Op::update) continue;
      buffer_of(id) = buffer_of(node.operands[0]);
      if (group_of(node.operands[1]) == group_of(id) &&
          ir::is_collective(graph().at(node.operands[1]).op) && writes_through(graph(), id)) {
        buffer_of(node.operands[1]) = buffer_of(id);
      }
    }
    for (const ir::Output& output : graph().outputs) {
      if (buffer_of(output.value) < 0) {
        buffer_of(output.value) = add_buffer(output.name, PlanBuffer::Role::output, output.value);
      }
      plan_.named[output.name] = buffer_of(output.value);
    }
  }

  [[nodiscard]] bool crosses(ValueId id) const {
    const auto& users = users_[static_cast<std::size_t>(id)];
    return std::any_of(users.begin(), users.end(),
                       [&](ValueId user) { return group_of(user) != group_of(id); });
  }

  void place_crossing_values() {
    for (ValueId id = 0; id < graph().size(); ++id) {
      if (group_of(id) < 0 || buffer_of(id) >= 0 || !crosses(id)) continue;
      buffer_of(id) = add_buffer(graph().at(id).name, PlanBuffer::Role::temporary, id);
    }
  }

  LibraryStep library_step(const Group& group) {
    const ValueId value = group.values.front();
    const LibraryStep step{graph().at(value).name, value,
                           buffer_of(graph().at(value).operands.front()), buffer_of(value)};
    for (const BufferId id : {step.in, step.out})
      plan_.buffers[static_cast<std::size_t>(id)].in_collective = true;
    return step;
  }

  KernelStep kernel_step(const Group& group) {
    KernelStep step;
    const ValueId last = group.values.back();
    step.name = group.fusion != nullptr ? group.fusion->name : graph().at(last).name;
    if (group.fusion != nullptr) step.knobs = group.fusion->knobs;
    step.kind = group.kind == Group::Kind::reduction    ? KernelStep::Kind::reduction
                : group.kind == Group::Kind::all_reduce ? KernelStep::Kind::all_reduce
                                                        : KernelStep::Kind::computation;
    const int own = group_of(last);
    for (const ValueId id : group.values) {
      const Node& node = graph().at(id);
      if (node.op != Op::update && node.op != Op::all_gather) step.members.push_back(id);
      if (node.op == Op::reduce_scatter) {
        step.domain = id;
        step.axis = node.attributes.axis;
      }
      if (node.op == Op::reduction) step.domain = node.operands.front();
      add_loads(step, node, own);
      add_stores(step, id);
    }
    if (step.domain < 0) step.domain = domain_of(group);
    return step;
  }

  /// The first update or stored value; the schedule made sure that all of them agree.
  [[nodiscard]] ValueId domain_of(const Group& group) {
    for (const ValueId id : group.values) {
      if (graph().at(id).op == Op::update || buffer_of(id) >= 0) return id;
    }
    throw InternalError("kernel with '" + graph().at(group.values.front()).name +
                        "' stores nothing");
  }

  void add_loads(KernelStep& step, const Node& node, int own) {
    const std::size_t first =
        node.op == Op::update ? 1 : 0;  // an update does not read the state it writes
    for (std::size_t i = first; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (graph().at(operand).weak || group_of(operand) == own) continue;
      const bool known =
          std::any_of(step.loads.begin(), step.loads.end(),
                      [&](const KernelStep::Load& load) { return load.value == operand; });
      const bool from_peers = node.op == Op::reduce_scatter;
      if (from_peers)
        plan_.buffers[static_cast<std::size_t>(buffer_of(operand))].peer_access = true;
      if (!known || from_peers) step.loads.push_back({operand, buffer_of(operand), from_peers});
    }
  }

  void add_stores(KernelStep& step, ValueId id) {
    const Node& node = graph().at(id);
    ValueId value = node.op == Op::update ? node.operands[1] : id;
    if (buffer_of(id) < 0) return;
    const bool to_peers = graph().at(value).op == Op::all_gather && group_of(value) == group_of(id);
    if (node.op == Op::all_gather && buffer_of(id) == state_buffer_written_by_update(id)) return;
    if (to_peers) {
      value = graph().at(value).operands.front();
      plan_.buffers[static_cast<std::size_t>(buffer_of(id))].peer_access = true;
    }
    step.stores.push_back({value, buffer_of(id), to_peers});
  }

  /// The buffer of the state whose update, in the same kernel, stores gathered value `gather`; -1 if there is none.
  [[nodiscard]] BufferId state_buffer_written_by_update(ValueId gather) {
    for (const ValueId user : users_[static_cast<std::size_t>(gather)]) {
      if (graph().at(user).op == Op::update && group_of(user) == group_of(gather))
        return buffer_of(user);
    }
    return -1;
  }

  Plan plan_;
  std::vector<std::vector<ValueId>> users_;
  Groups groups_;
  std::vector<BufferId> buffer_of_;
};

/// Kernel names become file and symbol names: distinct identifiers.
void make_names_distinct(Plan& plan) {
  std::set<std::string> taken;
  for (PlanStep& step : plan.steps) {
    auto* kernel = std::get_if<KernelStep>(&step);
    if (kernel == nullptr) continue;
    for (char& c : kernel->name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    }
    if (std::isdigit(static_cast<unsigned char>(kernel->name.front())) != 0)
      kernel->name.insert(0, "k_");
    const std::string stem = kernel->name;
    for (int number = 2; !taken.insert(kernel->name).second; ++number) {
      kernel->name = stem + "_" + std::to_string(number);
    }
  }
}

}  // namespace

std::string_view to_string(KernelStep::Kind kind) {
  switch (kind) {
    case KernelStep::Kind::computation:
      return "computation";
    case KernelStep::Kind::reduction:
      return "reduction";
    case KernelStep::Kind::all_reduce:
      return "all_reduce";
  }
  return "";
}

Plan lower(const ir::Graph& graph) {
  check_kernels(graph);
  Graph rewritten = drop_dead(graph);
  rewritten = expand_cross_rank_reductions(rewritten);
  rewritten = expand_overwritten_reads(rewritten);
  Plan plan = Lowering(std::move(rewritten)).run();
  make_names_distinct(plan);
  return plan;
}

}  // namespace coconet::sched
