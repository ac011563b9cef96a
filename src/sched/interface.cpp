// Comparing what the application reads and writes before and after a step, by name.
#include "sched/interface.h"

#include <fmt/format.h>

#include <string>

#include "coconet/error.h"

namespace coconet::sched {

namespace {

std::string type_of(const ir::Graph& graph, const ir::Node& node) {
  return fmt::format("{}{} {}", to_string(node.dtype), ir::to_string(node.shape),
                     ir::to_string(node.layout, graph.mesh));
}

}  // namespace

void require_same_interface(const ir::Graph& before, const ir::Graph& after, const Step& step) {
  const auto require = [&](const std::string& what, const ir::Node& old, const ir::Node& now,
                           bool may_be_sliced) {
    if (old.dtype == now.dtype && old.shape == now.shape &&
        (old.layout == now.layout || may_be_sliced))
      return;
    throw ScheduleError(fmt::format(
        "'{}' would make {} {}, and the application has it as {}; only as_slice changes what the "
        "application sees, the layout of the state that it names",
        to_string(step), what, type_of(after, now), type_of(before, old)));
  };
  const auto require_there = [&](const std::string& what, bool is_there) {
    if (!is_there)
      throw ScheduleError(fmt::format("'{}' would drop {}, which the application gives or reads",
                                      to_string(step), what));
  };
  for (std::size_t i = 0; i < before.outputs.size(); ++i) {
    const ir::Output& output = before.outputs[i];
    const std::string what = fmt::format("output '{}'", output.name);
    require_there(what, i < after.outputs.size() && after.outputs[i].name == output.name);
    require(what, before.at(output.value), after.at(after.outputs[i].value), false);
  }
  ir::ValueId now = 0;
  for (const ir::Node& old : before.nodes) {
    if (old.op != ir::Op::input && old.op != ir::Op::state) continue;
    const std::string what = fmt::format("{} '{}'", to_string(old.op), old.name);
    while (now < after.size() && after.at(now).name != old.name) ++now;  // they keep their order
    require_there(what, now < after.size());
    require(what, old, after.at(now),
            step.transformation == "as_slice" && step.text("state") == old.name);
  }
}

}  // namespace coconet::sched
