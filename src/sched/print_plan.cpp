// The plan as text for people: `coconet explain --show plan`.
#include <algorithm>

#include "sched/plan.h"

namespace coconet::sched {

namespace {

std::string_view role_name(PlanBuffer::Role role) {
  switch (role) {
    case PlanBuffer::Role::input:
      return "input";
    case PlanBuffer::Role::state:
      return "state";
    case PlanBuffer::Role::output:
      return "output";
    case PlanBuffer::Role::temporary:
      return "temporary";
  }
  return "";
}

std::string pad(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string print(const Plan& plan, const KernelStep& step) {
  const auto buffer = [&](BufferId id) { return plan.buffers[static_cast<std::size_t>(id)].name; };
  std::string text = "kernel " + step.name + " (" + std::string(to_string(step.kind)) + ") over " +
                     ir::to_string(plan.graph.at(step.domain).shape) + " " +
                     ir::to_string(plan.graph.at(step.domain).layout, plan.graph.mesh) + "\n";
  std::string line;
  for (const auto& load : step.loads) {
    line += (line.empty() ? "" : ", ") + buffer(load.buffer) +
            (load.from_peers ? " of every rank" : "");
  }
  if (!line.empty()) text += "    reads    " + line + "\n";
  line.clear();
  for (const ir::ValueId member : step.members)
    line += (line.empty() ? "" : ", ") + plan.graph.at(member).name;
  if (!line.empty()) text += "    computes " + line + "\n";
  line.clear();
  for (const auto& store : step.stores) {
    line += (line.empty() ? "" : ", ") + buffer(store.buffer) +
            (store.to_peers ? " of every rank" : "");
  }
  return text + "    writes   " + line + "\n";
}

}  // namespace

std::string print(const Plan& plan) {
  std::size_t names = 0;
  std::size_t types = 0;
  for (const PlanBuffer& buffer : plan.buffers) {
    names = std::max(names, buffer.name.size());
    types = std::max(types, to_string(buffer.dtype).size() + ir::to_string(buffer.shape).size());
  }
  std::string text = "buffers\n";
  for (const PlanBuffer& buffer : plan.buffers) {
    text += "  " + pad(buffer.name, names) + "  " +
            pad(std::string(to_string(buffer.dtype)) + ir::to_string(buffer.shape), types) + "  " +
            pad(ir::to_string(buffer.layout, plan.graph.mesh), 10) + "  " +
            std::string(role_name(buffer.role)) +
            (buffer.peer_access ? ", reached by other ranks" : "") + "\n";
  }
  text += "steps\n";
  int number = 0;
  for (const PlanStep& step : plan.steps) {
    text += "  " + std::to_string(++number) + ". ";
    if (const auto* kernel = std::get_if<KernelStep>(&step)) {
      text += print(plan, *kernel);
      continue;
    }
    const auto& library = std::get<LibraryStep>(step);
    const ir::Node& node = plan.graph.at(library.value);
    const bool reduces = node.op != ir::Op::all_gather && node.op != ir::Op::broadcast;
    text += "library " + std::string(to_string(node.op)) +
            (reduces ? " (" + std::string(to_string(node.attributes.reduction)) + ")" : "") +
            " along " +
            plan.graph.mesh.axes()[static_cast<std::size_t>(node.attributes.axis)].name +
            "\n    reads    " + plan.buffers[static_cast<std::size_t>(library.in)].name +
            "\n    writes   " + plan.buffers[static_cast<std::size_t>(library.out)].name + "\n";
  }
  return text;
}

}  // namespace coconet::sched
