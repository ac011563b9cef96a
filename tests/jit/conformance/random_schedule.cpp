// Choosing steps: the candidates of the transformations, and what no candidate names.
#include "jit/conformance/random_schedule.h"

#include <array>
#include <set>
#include <string>
#include <vector>

#include "ir/access.h"
#include "sched/knobs.h"
#include "sched/schedule.h"

namespace coconet::test {

namespace {

constexpr std::size_t most_steps = 8;

bool may_be_fused(const ir::Node& node) {
  return !node.weak && (ir::is_elementwise(node.op) || ir::is_collective(node.op) ||
                        node.op == ir::Op::update || node.op == ir::Op::reduction);
}

/// Ops that are connected, grown from one.
std::vector<std::string> random_patch(const ir::Graph& graph, Genes& genes) {
  std::vector<ir::ValueId> seeds;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    if (may_be_fused(graph.at(id)) && graph.fusion_of(id) == nullptr) seeds.push_back(id);
  }
  if (seeds.empty()) return {};
  const auto& users = graph.users();
  std::set<ir::ValueId> patch = {genes.any(seeds)};
  for (std::size_t i = genes.below(7); i > 0; --i) {
    std::vector<ir::ValueId> beside;
    for (const ir::ValueId member : patch) {
      const auto consider = [&](ir::ValueId id) {
        if (may_be_fused(graph.at(id)) && !patch.contains(id)) beside.push_back(id);
      };
      for (const ir::ValueId id : users[static_cast<std::size_t>(member)]) consider(id);
      for (const ir::ValueId id : graph.at(member).operands) consider(id);
    }
    if (beside.empty()) break;
    patch.insert(genes.any(beside));
  }
  std::vector<std::string> names;
  for (const ir::ValueId id : patch) names.push_back(graph.at(id).name);
  return names;
}

/// Legal steps that fuse some of the ops.
void add_fusions(const ir::Graph& graph, Genes& genes, std::vector<sched::Step>& legal) {
  const std::string kernel = "kernel_" + std::to_string(graph.fusions().size());
  for (int tries = 0; tries < 3; ++tries) {
    const std::vector<std::string> ops = random_patch(graph, genes);
    if (ops.empty()) return;
    for (const ir::Fusion::Kind kind : ir::fusion_kinds) {
      sched::Step step = sched::complete(
          {"fuse", {{"kernel", kernel}, {"kind", std::string(ir::to_string(kind))}, {"ops", ops}}});
      if (sched::legal(graph, step).empty()) legal.push_back(std::move(step));
    }
  }
}

template <class Choices>
std::string any_or_automatic(Genes& genes, const Choices& choices) {
  const std::size_t choice = genes.below(choices.size() + 1);
  return choice == 0 ? std::string() : std::string(choices[choice - 1].name);
}

void turn_knobs(const ir::Graph& graph, sched::Step& step, Genes& genes, bool in_rank_order) {
  do {
    step.arguments["algorithm"] = in_rank_order
                                      ? std::string(sched::algorithm_choices().front().name)
                                      : any_or_automatic(genes, sched::algorithm_choices());
    step.arguments["protocol"] = any_or_automatic(genes, sched::protocol_choices());
  } while (!sched::legal(graph, step).empty());
  step.arguments["channels"] = genes.any(std::array<std::int64_t, 5>{0, 1, 2, 7, 64});
  step.arguments["vector_bytes"] = genes.any(std::array<std::int64_t, 6>{0, 4, 8, 16, 32, 64});
  step.arguments["chunk_bytes"] = genes.any(std::array<std::int64_t, 3>{0, 1024, 2048});
}

/// The step with another integer in place of a fallback, such as the dimension of a split, where
/// that is legal.
void turn_integers(const ir::Graph& graph, sched::Step& step, Genes& genes) {
  for (auto& [name, argument] : step.arguments) {
    const auto* const number = std::get_if<std::int64_t>(&argument);
    if (number == nullptr) continue;
    sched::Step other = step;
    other.arguments[name] = *number + static_cast<std::int64_t>(genes.below(2));
    if (sched::legal(graph, other).empty()) argument = other.arguments[name];
  }
}

}  // namespace

Schedule random_schedule(const Program& program, Genes& genes, bool in_rank_order) {
  sched::Steps steps{"random", {}};
  ir::Graph graph = *ir::graph_of(program);
  for (std::size_t i = genes.below(most_steps + 1); i > 0; --i) {
    std::vector<sched::Step> legal;
    for (const sched::Transformation* transformation : sched::transformations()) {
      for (sched::Step& step : transformation->candidates(graph)) legal.push_back(std::move(step));
    }
    add_fusions(graph, genes, legal);
    if (legal.empty()) break;
    sched::Step step = genes.any(legal);
    if (step.transformation == "fuse") {
      turn_knobs(graph, step, genes, in_rank_order);
    } else {
      turn_integers(graph, step, genes);
    }
    graph = sched::transform(graph, step);
    steps.steps.push_back(std::move(step));
  }
  return Schedule::parse(sched::to_json(steps));
}

}  // namespace coconet::test
