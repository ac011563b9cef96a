// Operands and attributes for every op of the tables.
#include "jit/codegen/op_variations.h"

#include <functional>
#include <set>
#include <string>

#include "coconet/error.h"
#include "ir/access.h"
#include "jit/conformance/conformance.h"

namespace coconet::test {

namespace {

using Edit = std::function<void(ir::Node&)>;

/// Each sets one attribute to a value that is not the default.
std::vector<Edit> edits(const Mesh& mesh) {
  std::vector<Edit> all;
  for (const Reduction reduction : all_reductions)
    all.push_back([=](ir::Node& node) { node.attributes.reduction = reduction; });
  for (const DType dtype : all_dtypes) {
    all.push_back([=](ir::Node& node) {
      node.dtype = dtype;
      node.attributes.dtype = dtype;
    });
  }
  for (int axis = 1; axis < static_cast<int>(mesh.axes().size()); ++axis)
    all.push_back([=](ir::Node& node) { node.attributes.axis = axis; });
  for (const int offset : {-1, 2})
    all.push_back([=](ir::Node& node) { node.attributes.offset = offset; });
  for (const std::vector<int>& dims : {std::vector{0}, {1}, {0, 1}})
    all.push_back([=](ir::Node& node) { node.attributes.dims = dims; });
  for (const std::vector<int>& permutation : {std::vector{0, 1}, {1, 0}})
    all.push_back([=](ir::Node& node) { node.attributes.permutation = permutation; });
  for (const char* letters : {"ij,ik->jk", "ij,ji->i"})
    all.push_back([=](ir::Node& node) { node.attributes.letters = letters; });
  for (const Shape& shape : {Shape{Dim("m", 0), Dim("n", 0)},
                             {3, Dim("n", 0), Dim("m", 0)},
                             {Dim("n", 0), 1},
                             {2, 2, 6}})
    all.push_back([=](ir::Node& node) { node.attributes.shape = shape; });
  const int last = mesh.axes().front().size - 1;
  all.insert(all.end(), {
                            [](ir::Node& node) { node.attributes.dim = 1; },
                            [=](ir::Node& node) { node.attributes.root = last; },
                            [](ir::Node& node) { node.attributes.keep_dims = true; },
                            [](ir::Node& node) { node.attributes.per_buffer = true; },
                            [](ir::Node& node) { node.attributes.transpose_a = true; },
                            [](ir::Node& node) { node.attributes.transpose_b = true; },
                            [](ir::Node& node) { node.attributes.inserted = {1}; },
                            [](ir::Node& node) { node.attributes.begin = 1; },
                            [](ir::Node& node) { node.attributes.end = 4; },
                            [](ir::Node& node) { node.attributes.step = 2; },
                            [](ir::Node& node) { node.attributes.also = -100; },
                            [](ir::Node& node) { node.attributes.before = 1; },
                            [](ir::Node& node) { node.attributes.after = 2; },
                            [](ir::Node& node) { node.attributes.probability = 0.5; },
                            [](ir::Node& node) { node.attributes.seed = 7; },
                        });
  return all;
}

ir::Node start_of(ir::Op op) {
  ir::Node node;
  node.op = op;
  node.dtype = f32;
  if (!ir::is_pointwise(op) && op != ir::Op::expand) node.attributes.dtype = f32;
  node.attributes.number = 2;  // which integers hold, too
  node.attributes.extent = Dim("n", 0);
  node.attributes.letters = "ij,jk->ik";
  return node;
}

/// How the program of each of `pools` shows `node` on the operands that it can have there.
std::vector<std::string> shown(const std::vector<OperandPool>& pools, ir::Node node) {
  node.name = "it";
  std::vector<std::string> texts;
  for (const OperandPool& pool : pools) {
    std::string text;
    ir::Graph& graph = *ir::graph_of(pool.program);
    for (const auto& operands : pool.of_tensors) {
      if (try_append(graph, node, operands) < 0) continue;
      text += ir::print(graph);
      graph.drop_from(graph.size() - 1);
    }
    texts.push_back(text);
  }
  return texts;
}

Layout layout_of(const Mesh& mesh, const ir::Placements& placements) {
  std::vector<std::pair<std::string, Placement>> named;
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    named.emplace_back(mesh.axes()[axis].name, placements[axis]);
  return Layout::on(std::move(named));
}

/// The layout of the transposed matrix.
ir::Placements transposed(ir::Placements placements) {
  for (Placement& placement : placements) {
    if (placement.kind == Placement::Kind::sliced) placement.dim = 1 - placement.dim;
  }
  return placements;
}

}  // namespace

std::vector<ir::Op> structural_ops() {
  return {
#define COCONET_STRUCTURAL(name, ...) ir::Op::name,
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
  };
}

std::vector<ir::Node> variations_of(ir::Op op, const Mesh& mesh) {
  std::vector<OperandPool> pools;
  for (const ir::Placements& layout : matrix_layouts(mesh)) pools.emplace_back(mesh, f32, layout);
  std::vector<ir::Node> found;
  std::set<std::vector<std::string>> seen = {std::vector<std::string>(pools.size())};  // refused
  const auto consider = [&](const ir::Node& node) {
    if (seen.insert(shown(pools, node)).second) found.push_back(node);
  };
  const ir::Node plain = start_of(op);
  consider(plain);
  std::vector<Edit> read;  // those that say something to the op
  const std::vector<std::string> unedited = shown(pools, plain);
  for (const Edit& edit : edits(mesh)) {
    ir::Node node = plain;
    edit(node);
    if (shown(pools, node) != unedited) read.push_back(edit);
  }
  for (std::size_t i = 0; i < read.size(); ++i) {
    for (std::size_t j = i; j < read.size(); ++j) {
      ir::Node node = plain;
      read[i](node);
      read[j](node);
      consider(node);
    }
  }
  return found;
}

OperandPool::OperandPool(const Mesh& mesh, DType dtype, const ir::Placements& layout)
    : program("table", mesh), dtype_(dtype), layout_(layout_of(mesh, layout)) {
  const Dim n = program.dim("n"), m = program.dim("m");
  shape_ = {n, m};
  const Value s = program.state("s", dtype, shape_, layout_);
  const Value g = program.input("g", dtype, shape_, layout_);
  const Value written = program.state("written", dtype, shape_, layout_);
  const Value turned = program.state("turned", dtype, {m, n}, layout_of(mesh, transposed(layout)));
  const Value whole = program.state("whole", dtype, {m, n}, replicated);
  const Value of_buffers = program.state("of_buffers", dtype, {program.buffers(n)}, replicated);
  const Value line = program.state("line", dtype, {n}, replicated);
  const Value upper = program.state("upper", bf16, shape_, layout_);
  const Value lower = program.state("lower", i16, shape_, layout_);
  const Value stated = program.state("stated", dtype, {4, 6}, layout_);
  const Value indices = program.state("indices", i32, {3, 1}, replicated);
  const Value number = program.scalar("t");  // the number of the step
  of_tensors = {{ir::id_of(s), ir::id_of(turned)},
                {ir::id_of(s), ir::id_of(s)},
                {ir::id_of(s), ir::id_of(whole)},
                {ir::id_of(written), ir::id_of(g)},
                {ir::id_of(s), ir::id_of(number)},
                {ir::id_of(upper), ir::id_of(lower)},
                {ir::id_of(stated), ir::id_of(indices)},
                {ir::id_of(indices)},
                {ir::id_of(of_buffers)},
                {ir::id_of(line)},
                {ir::id_of(number)}};
}

OperandPool::Lists OperandPool::operands_of(const ir::PointwiseRow& row) {
  if (of_pointwise_.empty()) {
    const int p = ir::id_of(operand_of_domain(program, "_p", dtype_, shape_, layout_));
    const int q = ir::id_of(operand_of_domain(program, "_q", dtype_, shape_, layout_));
    const int r =
        ir::id_of(operand_of_domain(program, "_row", dtype_, {shape_.back()}, replicated));
    const int number = ir::graph_of(program)->find("t");
    const int flags = ir::id_of(program.input("flags", boolean, shape_, layout_));
    of_pointwise_ = {{p, q, r}, {p, r, q}, {number, number, number}, {flags, p, q}};
  }
  if (row.rule == ir::DTypeRule::choose) return {of_pointwise_.back()};
  return {of_pointwise_.begin(), of_pointwise_.end() - 1};
}

std::vector<ir::Placements> matrix_layouts(const Mesh& mesh) {
  std::vector<ir::Placements> layouts = {{}};
  for (std::size_t axis = 0; axis < mesh.axes().size(); ++axis) {
    std::vector<ir::Placements> longer;
    for (const ir::Placements& layout : layouts) {
      for (const Placement placement : {local, replicated, sliced(0), sliced(1)}) {
        longer.push_back(layout);
        longer.back().push_back(placement);
      }
    }
    layouts = std::move(longer);
  }
  return layouts;
}

ir::ValueId try_append(ir::Graph& graph, ir::Node node, const std::vector<ir::ValueId>& operands) {
  const auto arity = static_cast<std::size_t>(ir::arity(node.op));
  if (operands.size() < arity) return -1;
  if (node.op == ir::Op::reduction && node.attributes.reduction == Reduction::mean)
    return -1;  // which is a sum and a division
  node.operands.assign(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(arity));
  try {
    return ir::append(graph, std::move(node));
  } catch (const ProgramError&) {
    return -1;
  }
}

}  // namespace coconet::test
