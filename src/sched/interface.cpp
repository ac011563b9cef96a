// Comparing what the application reads and writes before and after a step, by name.
#include "sched/interface.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

#include "coconet/error.h"

namespace coconet::sched {

namespace {

std::string type_of(const ir::Graph& graph, const ir::Node& node) {
  return fmt::format("{}{} {}", to_string(node.dtype), ir::to_string(node.shape),
                     ir::to_string(node.layout, graph.mesh));
}

}  // namespace

void require_same_interface(const ir::Graph& before, const ir::Graph& after,
                            std::span<const Step> steps) {
  std::set<std::string_view> sliced;  // the states that may be
  for (const Step& step : steps) {
    if (step.transformation == "as_slice") sliced.insert(step.text("state"));
  }
  const auto require = [&](std::string_view kind, const std::string& name, const ir::Node& old,
                           const ir::Node* now, bool may_be_sliced) {
    if (now == nullptr) {
      throw ScheduleError(
          fmt::format("'{}' would drop {} '{}', which the application gives or reads",
                      to_string(steps.front()), kind, name));
    }
    if (old.dtype == now->dtype && old.shape == now->shape &&
        (old.layout == now->layout || may_be_sliced))
      return;
    throw ScheduleError(fmt::format(
        "'{}' would make {} '{}' {}, and the application has it as {}; only as_slice changes what "
        "the application sees, the layout of the state that it names",
        to_string(steps.front()), kind, name, type_of(after, *now), type_of(before, old)));
  };
  for (std::size_t i = 0; i < before.outputs().size(); ++i) {
    const ir::Output& output = before.outputs()[i];
    const bool is_there = i < after.outputs().size() && after.outputs()[i].name == output.name;
    require("output", output.name, before.at(output.value),
            is_there ? &after.at(after.outputs()[i].value) : nullptr, false);
  }
  ir::ValueId now = 0;
  for (const ir::Node& old : before.nodes()) {
    if (!ir::states_type(old.op)) continue;
    while (now < after.size() && after.at(now).name != old.name) ++now;  // they keep their order
    require(to_string(old.op), old.name, old, now < after.size() ? &after.at(now) : nullptr,
            sliced.contains(old.name));
  }
}

}  // namespace coconet::sched
