// Lowering: a scheduled program becomes a plan.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "coconet/error.h"
#include "ir/ascii.h"
#include "sched/contractions.h"
#include "sched/expand.h"
#include "sched/groups.h"
#include "sched/kernels.h"
#include "sched/knobs.h"
#include "sched/overlaps.h"
#include "sched/phases.h"
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
  explicit Lowering(Graph graph) : groups_(make_groups(graph)) {
    plan_.graph = std::move(graph);
    buffer_of_.assign(plan_.graph.nodes().size(), -1);
  }

  Plan run() {
    place_application_tensors();
    place_crossing_values();
    for (const ir::Fusion& fusion : graph().fusions()) {
      for (const ValueId value : fusion.arriving) departing_.insert(buffer_of(value));
    }
    for (const Group& group : groups_.groups) {
      if (is_view(group)) continue;
      if (group.beside_previous) join_overlap(group.fusion->name);
      if (group.kind == Group::Kind::library) {
        plan_.steps.emplace_back(library_step(group));
      } else if (group.kind == Group::Kind::matmul) {
        plan_.steps.emplace_back(matmul_step(group));
      } else {
        plan_.steps.emplace_back(kernel_step(group));
      }
    }
    open_unlaunched();
    return std::move(plan_);
  }

 private:
  const Graph& graph() const { return plan_.graph; }
  [[nodiscard]] int group_of(ValueId id) const { return groups_.of[id]; }
  [[nodiscard]] BufferId& buffer_of(ValueId id) { return buffer_of_[id]; }

  BufferId add_buffer(const std::string& name, PlanBuffer::Role role, ValueId value) {
    const Node& node = graph().at(value);
    plan_.buffers.push_back({name, role, node.dtype, node.shape, node.layout});
    plan_.buffers.back().scattered = node.attributes.scattered;
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
    for (const ir::Output& output : graph().outputs()) {
      if (buffer_of(output.value) < 0) {
        buffer_of(output.value) = add_buffer(output.name, PlanBuffer::Role::output, output.value);
      }
      plan_.named[output.name] = buffer_of(output.value);
    }
  }

  [[nodiscard]] bool crosses(ValueId id) const {
    return std::ranges::any_of(graph().users()[id],
                               [&](ValueId user) { return group_of(user) != group_of(id); });
  }

  void place_crossing_values() {
    for (ValueId id = 0; id < graph().size(); ++id) {
      if (group_of(id) < 0 || buffer_of(id) >= 0 || !crosses(id)) continue;
      const BufferId same = same_as(id);
      const bool is_temporary =
          same >= 0 && plan_.buffers[same].role == PlanBuffer::Role::temporary;
      if (same >= 0 && (is_temporary || !peers_reach(id))) {
        buffer_of(id) = same;
        continue;
      }
      buffer_of(id) = add_buffer(graph().at(id).name, PlanBuffer::Role::temporary, id);
      plan_.buffers[buffer_of(id)].same_as = same;
    }
  }

  /// Of the library, where one that hands on tiles is waited for by name.
  [[nodiscard]] bool is_alone(ValueId id) const {
    const int group = group_of(id);
    return group >= 0 && groups_.groups[group].kind == Group::Kind::library &&
           is_over_one_rank(graph(), id) && !graph().arrives(id) &&
           !graph().arrives(graph().at(id).operands.front());
  }

  /// Whether other ranks read or write `id` from inside a kernel, which the application's memory
  /// may not allow.
  [[nodiscard]] bool peers_reach(ValueId id) const {
    const auto is_exchanged = [&](ValueId value) {
      const int group = group_of(value);
      return group >= 0 && groups_.groups[group].kind == Group::Kind::collective &&
             ir::is_collective(graph().at(value).op);
    };
    return is_exchanged(id) || std::ranges::any_of(graph().users()[id], is_exchanged);
  }

  /// A buffer that holds what `id` holds, because a collective over one rank makes one of the
  /// other, and that may be the memory of both; -1 where there is none. It is never a state's,
  /// which may be overwritten while the other is still read.
  [[nodiscard]] BufferId same_as(ValueId id) {
    if (is_alone(id)) {
      const BufferId operand = buffer_of(graph().at(id).operands.front());
      if (operand >= 0 && !plan_.buffers[operand].scattered &&
          plan_.buffers[operand].role != PlanBuffer::Role::state)
        return operand;
    }
    for (const ValueId user : graph().users()[id]) {
      const BufferId result = buffer_of(user);
      if (is_alone(user) && result >= 0 && plan_.buffers[result].role == PlanBuffer::Role::output)
        return result;
    }
    return -1;
  }

  [[nodiscard]] bool is_view(const Group& group) {
    if (group.kind != Group::Kind::library) return false;
    const ValueId value = group.values.front();
    return is_alone(value) && buffer_of(value) == buffer_of(graph().at(value).operands.front());
  }

  /// The step that comes next, of kernel `name`, runs beside the last one.
  void join_overlap(const std::string& name) {
    const std::size_t next = plan_.steps.size();
    std::vector<Overlap>& overlaps = plan_.overlaps;
    if (overlaps.empty() || overlaps.back().first + overlaps.back().count != next)
      overlaps.push_back({next - 1, 1, {}});
    ++overlaps.back().count;
    overlaps.back().takers.insert(name);
  }

  [[nodiscard]] bool departs(BufferId buffer) { return departing_.contains(buffer); }

  void mark_tiles(const ir::Fusion& fusion, KernelStep& step) {
    for (KernelStep::Phase& phase : step.phases) {
      for (auto& load : phase.loads) {
        load.arriving =
            std::binary_search(fusion.arriving.begin(), fusion.arriving.end(), load.value);
      }
      for (auto& store : phase.stores) store.departing = departs(store.buffer);
    }
  }

  LibraryStep library_step(const Group& group) {
    const ValueId value = group.values.front();
    const LibraryStep step{graph().at(value).name, value,
                           buffer_of(graph().at(value).operands.front()), buffer_of(value)};
    for (const BufferId id : {step.in, step.out}) plan_.buffers[id].in_collective = true;
    return step;
  }

  MatmulStep matmul_step(const Group& group) {
    const ValueId value = group.values.front();
    const Node& node = graph().at(value);
    MatmulStep step{.name = node.name,
                    .value = value,
                    .a = buffer_of(node.operands[0]),
                    .b = buffer_of(node.operands[1]),
                    .out = buffer_of(group.values.back()),
                    .departing = graph().arrives(value)};
    if (group.values.size() > 1) {
      const std::vector<ValueId>& terms = graph().at(group.values.back()).operands;
      step.bias = buffer_of(terms[terms[0] == value ? 1 : 0]);
    }
    return step;
  }

  KernelStep kernel_step(const Group& group) {
    KernelStep step;
    const ir::Fusion* const fusion = group.fusion;
    step.name = fusion != nullptr ? fusion->name : graph().at(group.values.back()).name;
    if (fusion != nullptr) step.knobs = fusion->knobs;
    switch (group.kind) {
      case Group::Kind::reduction:
        reduction_step(group, step);
        return step;
      case Group::Kind::collective:
        collective_step(group, step);
        break;
      default:
        step.kind = to_string(ir::Fusion::Kind::computation);
        step.domain = domain_of(group);
    }
    divide_into_phases(plan_, buffer_of_, group.values, step);
    if (fusion != nullptr) mark_tiles(*fusion, step);
    // Also where it takes tiles: whether those are there may be known on the machine only.
    if (step.is_collective && works_in_place(step.knobs)) open_to_peers(step);
    if (step.is_collective && !step.in_place) refuse_scattered(step);
    return step;
  }

  /// A chunk in a mailbox is a range of elements, which may lie in several buffers.
  void refuse_scattered(const KernelStep& step) const {
    const auto refuse = [&](const std::string& name, const char* how) {
      throw ScheduleError(
          fmt::format("kernel '{}' exchanges chunks through mailboxes, but '{}' {}; such kernels "
                      "work in place, with the algorithm direct and the protocol simple",
                      step.name, name, how));
    };
    const auto check = [&](const auto& access) {
      const PlanBuffer& buffer = plan_.buffers[access.buffer];
      if (buffer.scattered) refuse(buffer.name, "is scattered over buffers");
    };
    for (const auto& load : step.loads()) check(load);
    for (const auto& store : step.stores()) check(store);
    for (const ValueId id : step.computed()) {
      if (tells_buffers(graph().at(id))) refuse(graph().at(id).name, "tells buffers apart");
    }
  }

  void reduction_step(const Group& group, KernelStep& step) {
    const ValueId reduction = group.values.back();
    step.kind = "reduction";
    step.domain = graph().at(reduction).operands.front();
    KernelStep::Phase phase;
    for (const ValueId id : group.values) {
      const Node& node = graph().at(id);
      if (ir::is_view(node.op) || ir::is_gather(node.op)) {
        phase.loads.push_back(
            {.value = id, .buffer = buffer_of(node.operands.front()), .viewed = true});
      }
      if (ir::is_view(node.op)) continue;
      if (id != reduction) phase.members.push_back(id);
      const std::size_t gathered = ir::is_gather(node.op) ? 1 : 0;
      for (std::size_t i = gathered; i < node.operands.size(); ++i) {
        const ValueId operand = node.operands[i];
        const bool known = std::ranges::any_of(
            phase.loads, [&](const auto& load) { return load.value == operand; });
        if (known || graph().at(operand).weak || group_of(operand) == group_of(id)) continue;
        phase.loads.push_back({operand, buffer_of(operand), false});
      }
    }
    phase.reductions = {reduction};
    phase.stores = {{reduction, buffer_of(reduction), false}};
    step.phases = {std::move(phase)};
  }

  void collective_step(const Group& group, KernelStep& step) {
    const Collective collective =
        find_collective(graph(), {group.values.begin(), group.values.end()});
    step.kind = to_string(group.fusion->kind);
    step.is_collective = true;
    // A send links each rank with one other, whatever the algorithm.
    if (group.fusion->kind == ir::Fusion::Kind::send) step.knobs.algorithm = "direct";
    step.multicast = uses_multicast(step.knobs);
    // Steps in place begin when all ranks' operands are whole, and tell of nothing before they end.
    const bool overlapped =
        !group.fusion->arriving.empty() ||
        std::ranges::any_of(group.values, [&](ValueId value) { return graph().arrives(value); });
    step.in_place = works_in_place(step.knobs) && !overlapped;
    step.combine = collective.combine;
    step.spread = collective.spread;
    step.domain = collective.domain;
    step.axis = collective.axis;
  }

  /// What memory a kernel takes shall not depend on the number of ranks, nor on the machine.
  void open_unlaunched() {
    for (const ir::Fusion& fusion : graph().fusions()) {
      const Group& group = groups_.groups[group_of(fusion.members.front())];
      if (group.fusion != nullptr || !works_in_place(fusion.knobs)) continue;
      for (const ValueId member : fusion.members) {
        for (const BufferId id :
             {buffer_of(member), buffer_of(graph().at(member).operands.front())})
          if (id >= 0) plan_.buffers[id].peer_access = true;
      }
    }
  }

  void open_to_peers(const KernelStep& step) {
    const auto open = [&](BufferId id) {
      PlanBuffer& buffer = plan_.buffers[id];
      buffer.peer_access = true;
      buffer.multicast = buffer.multicast || step.multicast;
    };
    for (const auto& load : step.loads()) {
      if (load.combined) open(load.buffer);
    }
    for (const auto& store : step.stores()) {
      if (store.spread) open(store.buffer);
    }
  }

  /// The first update or stored value; the schedule made sure that all of them agree.
  [[nodiscard]] ValueId domain_of(const Group& group) {
    for (const ValueId id : group.values) {
      if (graph().at(id).op == Op::update || buffer_of(id) >= 0) return id;
    }
    throw InternalError("kernel with '" + graph().at(group.values.front()).name +
                        "' stores nothing");
  }

  Plan plan_;
  Groups groups_;
  Indexed<BufferId> buffer_of_;
  std::set<BufferId> departing_;  ///< of what kernels read tile by tile
};

/// `all`, and behind them `part` of each of `phases`.
template <class T>
std::vector<T> with_all(std::vector<T> all, const std::vector<KernelStep::Phase>& phases,
                        std::vector<T> KernelStep::Phase::*part) {
  for (const KernelStep::Phase& phase : phases)
    all.insert(all.end(), (phase.*part).begin(), (phase.*part).end());
  return all;
}

/// Kernel names become file and symbol names: distinct identifiers.
void make_names_distinct(Plan& plan) {
  std::set<std::string> taken;
  for (PlanStep& step : plan.steps) {
    auto* kernel = std::get_if<KernelStep>(&step);
    if (kernel == nullptr) continue;
    for (char& c : kernel->name) {
      if (!ir::is_word(c)) c = '_';
    }
    if (ir::is_digit(kernel->name.front())) kernel->name.insert(0, "k_");
    const std::string stem = kernel->name;
    for (int number = 2; !taken.insert(kernel->name).second; ++number) {
      kernel->name = fmt::format("{}_{}", stem, number);
    }
  }
}

}  // namespace

std::vector<KernelStep::Load> KernelStep::loads() const {
  return with_all(scalar_loads, phases, &Phase::loads);
}

std::vector<KernelStep::Store> KernelStep::stores() const {
  return with_all(scalar_stores, phases, &Phase::stores);
}

std::vector<ValueId> KernelStep::computed() const {
  std::vector<ValueId> all;
  for (const Phase& phase : phases) {
    for (const auto* ids : {&phase.scalars, &phase.members, &phase.reductions})
      all.insert(all.end(), ids->begin(), ids->end());
  }
  return all;
}

std::vector<ValueId> KernelStep::reductions() const {
  return with_all({}, phases, &Phase::reductions);
}

Seen seen_in(const Plan& plan, BufferId buffer, ValueId view) {
  if (view >= 0 && plan.graph.at(view).op == Op::reshape)
    return {plan.graph.at(view).shape, plan.graph.at(view).layout};
  return {plan.buffers[buffer].shape, plan.buffers[buffer].layout};
}

ir::Factors factors_in(const Plan& plan, const KernelStep& step, BufferId buffer, ValueId view) {
  const Shape& domain = plan.graph.at(step.domain).shape;
  if (view < 0 || plan.graph.at(view).op == Op::reshape)
    return ir::aligned(seen_in(plan, buffer, view).shape, domain);
  return ir::factors_through(plan.graph, plan.graph.at(view), domain);
}

namespace {

void add_ranges(const Graph& graph, Plan& plan) {
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::in_range) continue;
    const Node& given = graph.at(node.operands.front());
    const auto found = plan.named.find(given.name);
    if (!ir::states_type(given.op) || found == plan.named.end()) continue;
    plan.ranges.push_back({found->second, node.attributes.extent, node.attributes.also});
  }
}

}  // namespace

Plan lower(const ir::Graph& graph) {
  check_kernels(graph);
  check_overlaps(graph);
  const Graph live = drop_dead(graph);
  Graph rewritten = expand_pads(drop_marks(live));
  rewritten = expand_contractions(rewritten);
  rewritten = expand_fused_all_reduces(rewritten);
  rewritten = expand_cross_rank_reductions(rewritten);
  rewritten = expand_shared_widening(rewritten);
  rewritten = expand_overwritten_reads(rewritten);
  Plan plan = Lowering(std::move(rewritten)).run();
  add_ranges(live, plan);
  make_names_distinct(plan);
  return plan;
}

}  // namespace coconet::sched
