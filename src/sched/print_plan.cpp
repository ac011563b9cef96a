// The plan as text for people: `coconet explain --show plan`.
#include <fmt/format.h>

#include <algorithm>

#include "sched/plan.h"

namespace coconet::sched {

namespace {

std::string_view role_name(PlanBuffer::Role role) {
  constexpr std::string_view names[] = {"input", "state", "output", "temporary"};
  return names[static_cast<std::size_t>(role)];
}

std::string pad(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

/// "    reads    a, b\n"; nothing when there are no items.
std::string line(std::string_view what, const std::vector<std::string>& items) {
  if (items.empty()) return {};
  return fmt::format("    {:<9}{}\n", what, fmt::join(items, ", "));
}

std::string print(const Plan& plan, const KernelStep& step) {
  const auto buffer = [&](BufferId id) { return plan.buffers[id].name; };
  const auto name = [&](ir::ValueId id) { return plan.graph.at(id).name; };
  std::string text = "kernel " + step.name + " (" + step.kind + ") over " +
                     ir::to_string(plan.graph.at(step.domain).shape) + " " +
                     ir::to_string(plan.graph.at(step.domain).layout, plan.graph.mesh) + "\n";
  const bool sends = step.spread >= 0 && plan.graph.at(step.spread).op == ir::Op::send;
  const char* const receivers = sends ? " of the next group" : " of every rank";
  std::vector<std::string> scalars;
  for (const auto& load : step.scalar_loads) scalars.push_back(buffer(load.buffer));
  text += line("reads", scalars);
  for (const KernelStep::Phase& phase : step.phases) {
    std::vector<std::string> reads, computes, writes, reduces;
    for (const auto& load : phase.loads)
      reads.push_back(buffer(load.buffer) + (load.combined ? " of every rank" : "") +
                      (load.viewed ? " as " + name(load.value) : "") +
                      (load.arriving ? " as its tiles are made" : ""));
    for (const ir::ValueId id : phase.scalars) computes.push_back(name(id));
    for (const ir::ValueId id : phase.members) computes.push_back(name(id));
    for (const auto& store : phase.stores)
      writes.push_back(buffer(store.buffer) + (store.spread ? receivers : ""));
    for (const ir::ValueId id : phase.reductions)
      (step.is_reduction() ? computes : reduces).push_back(name(id));
    text += line("reads", reads) + line("computes", computes) + line("writes", writes) +
            line("reduces", reduces);
  }
  std::vector<std::string> results;
  for (const auto& store : step.scalar_stores) results.push_back(buffer(store.buffer));
  return text + line("writes", results);
}

std::string print(const Plan& plan, const LibraryStep& step) {
  const ir::Node& node = plan.graph.at(step.value);
  return fmt::format(
      "library {}{} along {}\n    reads    {}\n    writes   {}\n", to_string(node.op),
      (ir::reduces_over_ranks(node.op) ? fmt::format(" ({})", to_string(node.attributes.reduction))
                                       : ""),
      plan.graph.mesh.axes()[node.attributes.axis].name, plan.buffers[step.in].name,
      plan.buffers[step.out].name);
}

std::string print(const Plan& plan, const MatmulStep& step) {
  const auto buffer = [&](BufferId id, bool transposed) {
    return plan.buffers[id].name + (transposed ? " transposed" : "");
  };
  const ir::Node& node = plan.graph.at(step.value);
  return (node.op == ir::Op::matmul ? "matmul of "
                                    : "contract " + node.attributes.letters + " of ") +
         ir::to_string(node.shape) + " " + ir::to_string(node.layout, plan.graph.mesh) +
         "\n    reads    " + buffer(step.a, node.attributes.transpose_a) + ", " +
         buffer(step.b, node.attributes.transpose_b) +
         (step.bias >= 0 ? "\n    adds     " + buffer(step.bias, false) : "") + "\n    writes   " +
         buffer(step.out, false) + "\n";
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
    text +=
        fmt::format("  {}  {}  {}  {}{}{}{}{}\n", pad(buffer.name, names),
                    pad(std::string(to_string(buffer.dtype)) + ir::to_string(buffer.shape), types),
                    pad(ir::to_string(buffer.layout, plan.graph.mesh), 10),
                    (buffer.scattered ? "scattered " : ""), role_name(buffer.role),
                    (buffer.peer_access ? ", reached by other ranks" : ""),
                    (buffer.multicast ? " through a multicast pointer" : ""),
                    buffer.same_as < 0
                        ? ""
                        : fmt::format(", in the memory of {}", plan.buffers[buffer.same_as].name));
  }
  text += "steps\n";
  auto overlap = plan.overlaps.begin();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (overlap != plan.overlaps.end() && i == overlap->first) {
      text += fmt::format("  at once: steps {} to {}\n", i + 1, i + overlap->count);
      ++overlap;
    }
    text += fmt::format("  {}. ", i + 1);
    text += std::visit([&](const auto& planned) { return print(plan, planned); }, plan.steps[i]);
  }
  return text;
}

}  // namespace coconet::sched
