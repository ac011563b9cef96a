// The ops of the table, unscheduled: pointwise ops in kernels of a few, each other one as lowering
// makes it.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "ir/access.h"
#include "jit/codegen/op_variations.h"
#include "jit/codegen/table.h"

namespace coconet::test {

namespace {

/// Rows in one kernel: few enough to keep their results in a GPU's registers.
constexpr std::size_t rows_in_a_kernel = 6;

/// The structural ops in all their variations for programs over one mesh, found when asked for.
class Variations {
 public:
  explicit Variations(const Mesh& mesh) : mesh_(mesh) {}
  const std::vector<ir::Node>& of(ir::Op op) {
    const auto known = of_ops_.find(op);
    return known != of_ops_.end() ? known->second
                                  : of_ops_.emplace(op, variations_of(op, mesh_)).first->second;
  }

 private:
  Mesh mesh_;
  std::map<ir::Op, std::vector<ir::Node>> of_ops_;
};

/// One program, whose outputs are the results of ops.
class OpAuthor {
 public:
  OpAuthor(const Mesh& mesh, DType dtype, const ir::Placements& layout)
      : pool_(mesh, dtype, layout) {}

  /// Adds an op on all operands that it takes, as outputs.
  void add(const ir::PointwiseRow& row) {
    ir::Node node;
    node.op = row.op;
    add(node, pool_.operands_of(row));
  }
  void add(const ir::Node& node) { add(node, pool_.of_tensors); }

  /// In kernels of `rows_in_a_kernel` outputs, or as lowering likes; nothing without a result.
  [[nodiscard]] std::optional<TableRun> run(bool in_kernels) const {
    if (outputs_.empty() && written_ == 0) return std::nullopt;
    Schedule schedule(in_kernels ? "pointwise" : "none");
    for (std::size_t first = 0; in_kernels && first < outputs_.size(); first += rows_in_a_kernel) {
      const auto begin = outputs_.begin() + static_cast<std::ptrdiff_t>(first);
      const std::size_t count = std::min(rows_in_a_kernel, outputs_.size() - first);
      schedule.fuse("rows_" + std::to_string(first), "computation",
                    {begin, begin + static_cast<std::ptrdiff_t>(count)});
    }
    std::vector<Checked> checks = {check_of({{"n", 1}, {"m", 1}}, 1)};
    for (int domain = 0; domain < (in_kernels ? 3 : 1); ++domain) {
      checks.push_back(check_of({{"n", 5}, {"m", 7}}, 1));
      checks.back().options.drive.scalars["domain"] = domain;
    }
    return TableRun{pool_.program, schedule, std::move(checks),
                    written_ + static_cast<int>(outputs_.size())};
  }

 private:
  void add(const ir::Node& node, const OperandPool::Lists& lists) {
    std::set<std::vector<ir::ValueId>> tried;
    for (std::vector<ir::ValueId> operands : lists) {
      operands.resize(static_cast<std::size_t>(ir::arity(node.op)));
      if (!tried.insert(operands).second) continue;
      ir::Node named = node;
      if (node.op == ir::Op::update) {  // which is no output: states are compared anyway
        written_ += try_append(graph(), named, operands) >= 0 ? 1 : 0;
        continue;
      }
      named.name = std::string(to_string(node.op)) + "_" + std::to_string(outputs_.size());
      const ir::ValueId id = try_append(graph(), named, operands);
      if (id >= 0) show(id, lists.front().front());
    }
  }

  ir::Graph& graph() { return *ir::graph_of(pool_.program); }

  /// Makes an output of `id`, or of what it does to `partner` where it is a number.
  void show(ir::ValueId id, ir::ValueId partner) {
    Value value = ir::value_of(ir::graph_of(pool_.program), id);
    if (graph().at(id).weak) {
      ir::Node product;
      product.op = ir::Op::multiply;
      product.name = "times_" + std::to_string(outputs_.size());
      const ir::ValueId shown = try_append(graph(), product, {partner, id});
      if (shown < 0) return;
      value = ir::value_of(ir::graph_of(pool_.program), shown);
    }
    pool_.program.output(value.name(), value);
    outputs_.push_back(value.name());
  }

  OperandPool pool_;
  std::vector<std::string> outputs_;
  int written_ = 0;  ///< states
};

}  // namespace

std::vector<PossibleRun> runs_of_ops() {
  std::vector<PossibleRun> runs;
  std::size_t turn = 0;
  for (const int ranks : rank_counts) {
    for (const Mesh& mesh : meshes_of(ranks)) {
      const auto variations = std::make_shared<Variations>(mesh);
      for (const ir::Placements& layout : matrix_layouts(mesh)) {
        for (const DType dtype : all_dtypes) {
          // Two axes have four times as many layouts: each takes its turn of the dtypes.
          if (mesh.axes().size() > 1 && turn++ % 4 != 0) continue;
          runs.push_back([=] {
            OpAuthor author(mesh, dtype, layout);
            for (const ir::PointwiseRow& row : ir::pointwise_table()) author.add(row);
            return author.run(true);
          });
          for (const ir::Op op : structural_ops()) {
            runs.push_back([=] {
              OpAuthor author(mesh, dtype, layout);
              for (const ir::Node& node : variations->of(op)) author.add(node);
              return author.run(false);
            });
          }
        }
      }
    }
  }
  return runs;
}

}  // namespace coconet::test
