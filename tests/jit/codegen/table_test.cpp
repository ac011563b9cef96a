// Every row of every table equals the reference: ops, dtypes, layouts, kinds of kernels,
// algorithms, protocols and transformations, on every number of ranks.
#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "ir/access.h"
#include "jit/codegen/op_variations.h"
#include "jit/codegen/table.h"
#include "jit/kernels/compile_ahead.h"
#include "sample.h"
#include "sched/knobs.h"
#include "sched/schedule.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// How many cases each row has, by "table row".
using Rows = std::map<std::string, int>;

/// All rows, without a case yet.
Rows all_rows() {
  Rows rows;
  const auto add = [&](const std::string& table, auto row) {
    rows[table + " " + std::string(row)];
  };
  for (const ir::Op op : structural_ops()) add("op", to_string(op));
  for (const ir::PointwiseRow& row : ir::pointwise_table()) add("op", row.name);
  for (const DType dtype : all_dtypes) add("dtype", to_string(dtype));
  for (const ir::Fusion::Kind kind : ir::fusion_kinds) add("kind of kernel", to_string(kind));
  for (const sched::KnobChoice& choice : sched::algorithm_choices()) add("algorithm", choice.name);
  for (const sched::KnobChoice& choice : sched::protocol_choices()) add("protocol", choice.name);
  for (const sched::Transformation* row : sched::transformations())
    add("transformation", row->name);
  for (const int ranks : rank_counts) add("ranks", std::to_string(ranks));
  return rows;
}

/// Counts `run` for the rows that it stands for.
void count_rows(const TableRun& run, Rows& rows) {
  std::set<std::string> hit = {"ranks " + std::to_string(run.program.mesh().size())};
  const std::vector<Program> programs = run.schedule.apply(run.program);
  for (const ir::Node& node : ir::graph_of(programs.front())->nodes()) {
    hit.insert("op " + std::string(to_string(node.op)));
    if (!node.weak) hit.insert("dtype " + std::string(to_string(node.dtype)));
  }
  for (const ir::Node& node : ir::graph_of(programs.back())->nodes())
    hit.insert("op " + std::string(to_string(node.op)));
  for (const ir::Fusion& fusion : ir::graph_of(programs.back())->fusions()) {
    hit.insert("kind of kernel " + std::string(to_string(fusion.kind)));
    if (fusion.kind == ir::Fusion::Kind::computation) continue;
    const Knobs knobs = sched::with_defaults(fusion.knobs);
    hit.insert("algorithm " + knobs.algorithm);
    hit.insert("protocol " + knobs.protocol);
  }
  for (const sched::Step& step : sched::steps_of(run.schedule).steps)
    hit.insert("transformation " + step.transformation);
  for (const std::string& row : hit) rows[row] += run.cases;
}

}  // namespace

namespace coconet::test {

std::vector<Mesh> meshes_of(int ranks) {
  std::vector<Mesh> meshes = {Mesh({{"world", ranks}})};
  if (ranks % 2 == 0 && ranks > 2) meshes.push_back(Mesh({{"a", 2}, {"b", ranks / 2}}));
  return meshes;
}

}  // namespace coconet::test

namespace {

/// The runs of one source, and the tables whose rows it has.
struct Source {
  std::vector<PossibleRun> (*runs)();
  std::set<std::string> tables;
};

/// Whether a row of `tables` has no case yet.
bool misses_some(const Rows& rows, const std::set<std::string>& tables) {
  return std::ranges::any_of(rows, [&](const auto& row) {
    return row.second == 0 && tables.contains(row.first.substr(0, row.first.rfind(' ')));
  });
}

/// The runs that are drawn and, of the others, the first of each row that these have no case of.
std::vector<TableRun> drawn_runs(Rows& rows) {
  const Source sources[] = {{runs_of_ops, {"op", "dtype"}},
                            {runs_of_kernels, {"kind of kernel", "algorithm", "protocol"}},
                            {runs_of_schedules, {"transformation", "ranks"}}};
  std::vector<TableRun> drawn;
  std::vector<std::pair<PossibleRun, const Source*>> others;
  for (const Source& source : sources) {
    for (PossibleRun& possible : source.runs()) {
      if (!draw()) {
        others.emplace_back(std::move(possible), &source);
      } else if (std::optional<TableRun> run = possible()) {
        count_rows(*run, rows);
        drawn.push_back(std::move(*run));
      }
    }
  }
  for (const auto& [possible, source] : others) {
    if (!misses_some(rows, source->tables)) continue;
    std::optional<TableRun> run = possible();
    if (!run) continue;
    Rows with = rows;
    count_rows(*run, with);
    if (!std::ranges::any_of(
            with, [&](const auto& row) { return row.second > 0 && rows[row.first] == 0; }))
      continue;
    rows = std::move(with);
    drawn.push_back(std::move(*run));
  }
  return drawn;
}

}  // namespace

TEST_CASE("every row of every table equals the reference") {
  Rows rows = all_rows();
  const std::vector<TableRun> runs = drawn_runs(rows);
  CompileAhead kernels;
  int cases = 0;
  for (const TableRun& run : runs) {
    kernels.add(run.program, run.schedule);
    cases += run.cases;
  }
  kernels.compile();
  for (const TableRun& run : runs)
    require_all_conform(run.program, run.schedule, run.program.mesh().size(), run.checks);
  for (const auto& [row, count] : rows) {
    INFO("the table has no case of " << row);
    CHECK(count > 0);
  }
  std::cout << cases << " cases in " << runs.size() << " programs with " << kernels.size()
            << " different kernels\n";
}
