// overlap: runs steps at once, each taking what the one before makes tile by tile: a matmul and the
// kernel whose collective works on the product, or the kernels of a pipeline's stages. The rules
// are in sched/overlaps.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "sched/overlaps.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Op;
using ir::ValueId;

constexpr Parameter overlap_parameters[] = {
    {.name = "steps",
     .kind = Parameter::Kind::list,
     .summary = "the steps to run at once, in the order of what they hand on: kernels by name, the "
                "first may be a matmul"},
};

const Fusion* find_kernel(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.fusions(), name, &Fusion::name);
  return found == graph.fusions().end() ? nullptr : &*found;
}

/// The step called `name`: a kernel, or the matmul of that name.
Stage find_stage(const Graph& graph, const std::string& name) {
  if (const Fusion* kernel = find_kernel(graph, name))
    return {kernel, {kernel->members.begin(), kernel->members.end()}};
  const ValueId id = require_value(graph, name);
  if (const Fusion* kernel = graph.fusion_of(id)) {
    throw ScheduleError(quoted(graph, id) + " is in kernel '" + kernel->name +
                        "'; name the kernel");
  }
  if (graph.at(id).op != Op::matmul) {
    throw ScheduleError(quoted(graph, id) + " is neither a kernel nor a matmul; " +
                        (ir::is_collective(graph.at(id).op) || ir::is_elementwise(graph.at(id).op)
                             ? "fuse it into a kernel first"
                             : "name a step that computes"));
  }
  return stage_of(graph, id);
}

Graph apply_overlap(const Graph& graph, const Step& step) {
  const std::vector<std::string>& names = step.list("steps");
  if (names.size() < 2)
    throw ScheduleError(
        fmt::format("'steps' names {} of the two or more steps to run at once", names.size()));
  Graph result = graph;
  for (std::size_t i = 1; i < names.size(); ++i) {
    const Stage maker = find_stage(result, names[i - 1]);
    const Stage taker = find_stage(result, names[i]);
    if (taker.kernel == nullptr) {
      throw ScheduleError("'" + names[i] +
                          "' is a matmul, which waits for no tiles; it can only "
                          "be the first of the steps");
    }
    std::vector<Fusion> kernels = result.fusions();
    Fusion& kernel = *std::ranges::find(kernels, names[i], &Fusion::name);
    if (!kernel.arriving.empty()) {
      throw ScheduleError("kernel '" + kernel.name + "' is overlapped with " +
                          stage_of(result, kernel.arriving.front()).str(result) + " already");
    }
    kernel.arriving = read_of(result, kernel, maker);
    if (kernel.arriving.empty()) {
      throw ScheduleError("kernel '" + kernel.name + "' reads nothing that " + maker.str(result) +
                          " makes; each step takes what the one before makes");
    }
    result.set_fusions(std::move(kernels));
  }
  return result;
}

std::vector<Step> overlap_candidates(const Graph& graph) {
  std::vector<Step> steps;
  for (const Fusion& kernel : graph.fusions()) {
    if (!kernel.arriving.empty()) continue;
    for (const ValueId member : kernel.members) {
      for (const ValueId operand : graph.at(member).operands) {
        const Stage maker = stage_of(graph, operand);
        if (maker.values.empty() || maker.values.contains(member)) continue;
        const std::string name =
            maker.kernel != nullptr ? maker.kernel->name : graph.at(operand).name;
        Step step = complete({"overlap", {{"steps", std::vector<std::string>{name, kernel.name}}}});
        const bool known = std::ranges::find(steps, step) != steps.end();
        if (!known && is_legal(graph, step)) steps.push_back(std::move(step));
      }
    }
  }
  return steps;
}

}  // namespace

constinit const Transformation overlap_transformation{"overlap", "runs steps at once, tile by tile",
                                                      overlap_parameters, apply_overlap,
                                                      overlap_candidates};

}  // namespace coconet::sched
