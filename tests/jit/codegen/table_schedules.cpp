// All that schedules can become of programs: what the candidates of the transformations lead to,
// step by step.
#include <set>

#include "jit/codegen/table.h"
#include "sched/knobs.h"
#include "sched/schedule.h"

namespace coconet::test {

namespace {

/// Steps of the longest schedule.
constexpr std::size_t longest = 6;

struct Walk {
  std::vector<sched::Step> steps;
  ir::Graph graph;
};

/// Every program that candidates lead to from `program`, by one of the shortest ways.
std::vector<Walk> walks_from(const Program& program) {
  std::vector<Walk> walks = {{{}, *program.graph()}};
  std::set<std::string> seen = {ir::print(walks.front().graph)};
  for (std::size_t at = 0; at < walks.size(); ++at) {
    if (walks[at].steps.size() == longest) break;
    for (const sched::Transformation* transformation : sched::transformations()) {
      for (sched::Step& step : transformation->candidates(walks[at].graph)) {
        Walk next = {walks[at].steps, sched::transform(walks[at].graph, step)};
        next.steps.push_back(std::move(step));
        if (seen.insert(ir::print(next.graph)).second) walks.push_back(std::move(next));
      }
    }
  }
  return walks;
}

bool are_legal(const Program& program, const std::vector<sched::Step>& steps) {
  ir::Graph graph = *program.graph();
  for (const sched::Step& step : steps) {
    if (!sched::legal(graph, step).empty()) return false;
    graph = sched::transform(graph, step);
  }
  return true;
}

/// Gives the kernel of `step` the algorithm and the protocol whose turn it is.
void turn_knobs(sched::Step& step, std::size_t turn) {
  const auto algorithms = sched::algorithm_choices();
  const auto protocols = sched::protocol_choices();
  step.arguments["algorithm"] = std::string(algorithms[turn % algorithms.size()].name);
  step.arguments["protocol"] =
      std::string(protocols[turn / algorithms.size() % protocols.size()].name);
}

/// Momentum of an all_reduce along both axes of a mesh, which can be one of a hierarchy.
Program hierarchy(const Mesh& mesh, DType dtype) {
  Program program("hierarchy", mesh);
  const Dim n = program.dim("n");
  const Value g = program.state("g", dtype, {n}, local);
  const Value w = program.state("w", dtype, {n}, replicated);
  const Value v = program.state("v", dtype, {n}, replicated);
  const Value inner = all_reduce(g, sum, mesh.axes()[1].name);
  const Value v1 = update(v, v + all_reduce(inner, sum, mesh.axes()[0].name).named("total"));
  update(w, w - v1);
  return program;
}

}  // namespace

std::vector<TableRun> runs_of_schedules() {
  std::vector<TableRun> runs;
  std::size_t turn = 0;
  const auto add = [&](const Program& program) {
    Sizes sizes;
    std::int64_t extent = 5;
    for (const Dim& dim : program.graph()->dims) sizes[dim.name] = extent += 2;
    for (Walk& walk : walks_from(program)) {
      for (sched::Step& step : walk.steps) {
        if (step.transformation != "fuse") continue;
        do {
          turn_knobs(step, turn++);
        } while (!are_legal(program, walk.steps));
      }
      const Schedule schedule = Schedule::parse(sched::to_json({"walk", walk.steps}));
      runs.push_back({program, schedule, {check_of(sizes, 2)}});
    }
  };
  for (const int ranks : rank_counts) {
    for (const programs::Shipped& shipped : programs::shipped()) {
      if (!shipped.runs_on(ranks)) continue;
      const DType dtype = shipped.dtypes[turn % shipped.dtypes.size()];
      add(shipped.build(shipped.mesh(ranks), dtype));
    }
    for (const Mesh& mesh : meshes_of(ranks)) {
      if (mesh.axes().size() > 1)
        add(hierarchy(mesh, all_dtypes[turn % (std::size(all_dtypes) - 1)]));
    }
  }
  return runs;
}

}  // namespace coconet::test
