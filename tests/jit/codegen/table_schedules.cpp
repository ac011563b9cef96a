// What schedules can become of programs: candidates of the space that transformations lead to.
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "ir/access.h"
#include "jit/codegen/table.h"
#include "precisions.h"
#include "sched/knobs.h"
#include "sched/schedule.h"
#include "sched/tune/space.h"

namespace coconet::test {

namespace {

/// Candidates of a program that run.
constexpr std::size_t most_of_program = 20;

bool are_legal(const Program& program, const std::vector<sched::Step>& steps) {
  ir::Graph graph = *ir::graph_of(program);
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

/// A program and as many candidates of its space, found when asked for, with every depth among
/// them. By `turn` all of its states may be kept sliced, all but the first, or none.
class Candidates {
 public:
  Candidates(std::function<Program()> build, std::size_t turn)
      : build_(std::move(build)), turn_(turn) {}

  /// The run of the `index`th candidate; each has other knobs.
  std::optional<TableRun> run(std::size_t index) {
    if (!program_) find();
    if (index >= candidates_.size()) return std::nullopt;
    sched::Candidate candidate = candidates_[index];
    std::size_t turn = turn_ * most_of_program + index;
    for (sched::Step& step : candidate.steps) {
      if (step.transformation != "fuse") continue;
      do {
        turn_knobs(step, turn++);
      } while (!are_legal(*program_, candidate.steps));
    }
    Sizes sizes;
    std::int64_t extent = 5;
    for (const Dim& dim : ir::graph_of(*program_)->dims) sizes[dim.name] = extent += 2;
    return TableRun{*program_,
                    Schedule::parse(sched::to_json({"candidate", candidate.steps})),
                    {check_of(sizes, 2)}};
  }

 private:
  void find() {
    program_ = build_();
    std::size_t states = 0;
    ir::Graph graph = *ir::graph_of(*program_);
    for (ir::ValueId id = 0; id < graph.size(); ++id) {
      if (graph.at(id).op != ir::Op::state) continue;
      graph.edit(id).attributes.may_slice = turn_ % 3 == 0 || (turn_ % 3 == 1 && states++ > 0);
    }
    std::vector<sched::Candidate> all = sched::find_space(graph, {.most = 200}).candidates;
    const std::size_t step = (all.size() + most_of_program - 1) / most_of_program;
    for (std::size_t i = turn_ % step; i < all.size(); i += step)
      candidates_.push_back(std::move(all[i]));
  }

  std::function<Program()> build_;
  std::size_t turn_;
  std::optional<Program> program_;
  std::vector<sched::Candidate> candidates_;
};

}  // namespace

std::vector<PossibleRun> runs_of_schedules() {
  std::vector<PossibleRun> runs;
  std::size_t turn = 0;
  const auto add = [&](std::function<Program()> build) {
    const auto candidates = std::make_shared<Candidates>(std::move(build), turn++);
    for (std::size_t index = 0; index < most_of_program; ++index)
      runs.push_back([=] { return candidates->run(index); });
  };
  // The space of a program takes longer to find than the candidates take to run: each on one number
  // of ranks and of one dtype, in turn.
  for (const InPrecision& usual : usual_programs()) {
    const programs::Shipped& shipped = usual.shipped;
    std::vector<int> counts(std::begin(rank_counts), std::end(rank_counts));
    std::erase_if(counts, [&](int ranks) { return !shipped.runs_on(ranks); });
    const int ranks = counts.at(turn % counts.size());
    std::vector<programs::Precision> precisions = shipped.precisions;
    std::erase_if(precisions,
                  [&](const auto& one) { return one.mixed() != usual.precision.mixed(); });
    const programs::Precision precision = precisions.at(turn / counts.size() % precisions.size());
    add([=, &shipped] { return shipped.build(shipped.mesh(ranks), precision); });
  }
  for (const int ranks : rank_counts) {
    for (const Mesh& mesh : meshes_of(ranks)) {
      if (mesh.axes().size() == 1) continue;
      const DType dtype = all_dtypes[turn % (std::size(all_dtypes) - 1)];
      add([=] { return hierarchy(mesh, dtype); });
    }
  }
  return runs;
}

}  // namespace coconet::test
