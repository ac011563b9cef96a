// split: an all_reduce becomes several collectives with seams between them where computation can
// go.
//
//   into                        from                             to
//   reduce_scatter+all_gather   all_reduce(x)                    reduce_scatter, all_gather
//   reduce+broadcast            all_reduce(x)                    reduce, broadcast
//   hierarchical                all_reduce(all_reduce(x, a), b)  reduce_scatter along a, all_reduce
//                                                                along b, all_gather along a
//
// The all_reduce in the middle of a hierarchy moves 1/n of the data, n being the ranks along a:
// between nodes, where links are slow.
#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "coconet/error.h"
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

constexpr std::string_view ways[] = {"reduce_scatter+all_gather", "reduce+broadcast",
                                     "hierarchical"};

constexpr Parameter split_parameters[] = {
    {.name = "op",
     .summary = "the all_reduce to split",
     .takes_patterns = true,
     .pattern_of = ir::Op::all_reduce},
    {"into", Parameter::Kind::text, false, ways[0], ways, "what it becomes"},
    {"dim", Parameter::Kind::integer, false, "0", {}, "the dimension that reduce_scatter slices"},
};

/// One of the collectives that an all_reduce becomes.
struct Piece {
  ir::Op op;
  int axis;
};

/// Throws unless `dim` is a dimension of `target` where it is sliced, and left alone where it is
/// not.
void check_dim(const ir::Graph& graph, ir::ValueId target, std::int64_t dim, bool slices) {
  const auto rank = static_cast<std::int64_t>(graph.at(target).shape.size());
  if (slices && (dim < 0 || dim >= rank)) {
    throw ScheduleError(
        fmt::format("'dim' is {}, but {} has {}", dim, describe(graph, target),
                    (rank == 0   ? "no dimension to slice; split it into reduce+broadcast"
                     : rank == 1 ? "dimension 0 only"
                                 : fmt::format("dimensions 0 to {}", rank - 1))));
  }
  if (!slices && dim != 0)
    throw ScheduleError("'dim' is for reduce_scatter+all_gather and hierarchical only; drop it");
}

constexpr std::string_view split_before_fusing = "split it before it is fused";

/// The all_reduce along the inner axis that `outer` completes. Throws unless it is one of the same
/// reduction.
ir::ValueId find_inner(const ir::Graph& graph, ir::ValueId outer) {
  const ir::ValueId inner = graph.at(outer).operands.front();
  if (graph.at(inner).op != ir::Op::all_reduce) {
    throw ScheduleError(quoted(graph, outer) + " reduces " + quoted(graph, inner) +
                        "; a hierarchical split takes an all_reduce along one axis of an "
                        "all_reduce along another");
  }
  const Reduction reductions[] = {graph.at(outer).attributes.reduction,
                                  graph.at(inner).attributes.reduction};
  if (reductions[0] != reductions[1]) {
    throw ScheduleError(fmt::format(
        "{} takes the {} of {}, a {}; a hierarchical split takes two all_reduces of one reduction",
        quoted(graph, outer), to_string(reductions[0]), quoted(graph, inner),
        to_string(reductions[1])));
  }
  refuse_fused(graph, inner, split_before_fusing);
  return inner;
}

/// Appends `pieces` of `all_reduce`, the first of them on `value` and each other on the one before
/// it.
ir::ValueId append_pieces(Rewriter& rewriter, const ir::Node& all_reduce, ir::ValueId value,
                          int dim, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    ir::Node node{
        .op = piece.op,
        .name = rewriter.fresh_name(fmt::format("{}.{}", all_reduce.name, to_string(piece.op))),
        .user_named = all_reduce.user_named,
        .operands = {value},
        .attributes = {.axis = piece.axis}};
    if (ir::reduces_over_ranks(piece.op))
      node.attributes.reduction = all_reduce.attributes.reduction;
    if (piece.op == ir::Op::reduce_scatter) node.attributes.dim = dim;
    value = rewriter.add(std::move(node));
  }
  return value;
}

/// What becomes of one all_reduce.
struct Split {
  ir::ValueId reduced;  ///< the operand of the first piece
  int dim;
  std::vector<Piece> pieces;
  ir::ValueId replaced = -1;  ///< an all_reduce beside the target that nothing else reads
};

/// The all_reduce that `step` names, and what becomes of it.
std::pair<ir::ValueId, Split> split_of(const ir::Graph& graph, const Step& step) {
  const ir::ValueId target = require_value(graph, step.text("op"));
  const ir::Node& all_reduce = graph.at(target);
  if (all_reduce.op != ir::Op::all_reduce) {
    throw ScheduleError(quoted(graph, target) +
                        " is no all_reduce; only an all_reduce can be split");
  }
  refuse_fused(graph, target, split_before_fusing);
  const std::string_view into = step.text("into");
  const std::int64_t dim = step.integer("dim");
  check_dim(graph, target, dim, into != ways[1]);
  const int axis = all_reduce.attributes.axis;
  Split split{all_reduce.operands.front(),
              static_cast<int>(dim),
              {{ir::Op::reduce_scatter, axis}, {ir::Op::all_gather, axis}}};
  if (into == ways[1]) split.pieces = {{ir::Op::reduce, axis}, {ir::Op::broadcast, axis}};
  if (into == ways[2]) {
    const ir::ValueId inner = find_inner(graph, target);
    const int inner_axis = graph.at(inner).attributes.axis;
    split.pieces = {{ir::Op::reduce_scatter, inner_axis},
                    {ir::Op::all_reduce, axis},
                    {ir::Op::all_gather, inner_axis}};
    split.reduced = graph.at(inner).operands.front();
    const bool read_elsewhere = graph.is_output(inner) || graph.users()[inner].size() > 1;
    if (!read_elsewhere) split.replaced = inner;
  }
  return {target, std::move(split)};
}

ir::Graph apply_splits(const ir::Graph& graph, std::span<const Step> steps) {
  std::map<ir::ValueId, Split> splits;
  std::set<ir::ValueId> replaced;
  for (const Step& step : steps) {
    const auto [target, split] = split_of(graph, step);
    replaced.insert(split.replaced);
    splits.emplace(target, split);
  }
  Rewriter rewriter(graph);
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    const auto found = splits.find(id);
    if (found != splits.end()) {
      const Split& split = found->second;
      rewriter.set(id, append_pieces(rewriter, graph.at(id), rewriter.map(split.reduced), split.dim,
                                     split.pieces));
    } else if (!replaced.contains(id)) {
      rewriter.copy(id);
    }
  }
  return rewriter.finish();
}

ir::Graph apply_split(const ir::Graph& graph, const Step& step) {
  return apply_splits(graph, {&step, 1});
}

std::vector<Step> split_candidates(const ir::Graph& graph) {
  std::vector<Step> steps;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    if (graph.at(id).op != ir::Op::all_reduce || graph.fusion_of(id) != nullptr) continue;
    const auto try_step = [&](std::string_view way, std::int64_t dim) {
      Step step = complete(
          {"split", {{"op", graph.at(id).name}, {"into", std::string(way)}, {"dim", dim}}});
      if (is_legal(graph, step)) steps.push_back(std::move(step));
    };
    for (const std::string_view way : ways) {
      const int dims = way == ways[1] ? 1 : static_cast<int>(graph.at(id).shape.size());
      for (int dim = 0; dim < dims; ++dim) try_step(way, dim);
    }
  }
  return steps;
}

}  // namespace

constinit const Transformation split_transformation{
    "split",          "replaces an all_reduce by several collectives",
    split_parameters, apply_split,
    split_candidates, apply_splits};

}  // namespace coconet::sched
