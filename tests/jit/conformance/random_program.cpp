// Writing random programs: leaves, ops that the rules of the language take, updates and outputs.
#include "jit/conformance/random_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ir/access.h"
#include "ir/factors.h"
#include "jit/codegen/op_variations.h"
#include "jit/conformance/conformance.h"

namespace coconet::test {

namespace {

/// What a program's tensors are made of. Whole numbers of any dtype are exact in whatever order
/// they are added, as long as they are not too large, so that comparisons, too, must come out
/// alike. Real numbers take all ops.
struct Family {
  DType dtype;
  bool whole;
  double largest;  ///< up to which all whole numbers are exact
};
constexpr double wraps = 0x1p53;  // they wrap around in the kernel and in the reference alike
constexpr Family families[] = {
    {f64, true, 0x1p53}, {f64, false, 0},     {f32, true, 0x1p24}, {f16, true, 0x1p11},
    {bf16, true, 0x1p8}, {i64, true, 0x1p53}, {i32, true, wraps},  {i8, true, wraps},
    {u8, true, wraps},   {f64, false, 0},
};

/// What is known of a value that later ops may take.
struct Known {
  Value value;
  double bound = 0;   ///< of its absolute value; real numbers have none
  bool exact = true;  ///< the reference's bits, whatever the schedule
};

/// The absolute values that `row` reaches on operands within `bounds`, judging by their ends.
double bound_of(const ir::PointwiseRow& row, const std::array<double, 3>& bounds) {
  double bound = 0;
  for (const double a : {-bounds[0], 0.0, bounds[0]}) {
    for (const double b : {-bounds[1], 0.0, bounds[1]}) {
      for (const double c : {-bounds[2], 0.0, bounds[2]})
        bound = std::max(bound, std::fabs(row.reference(a, b, c)));
    }
  }
  return bound;
}

/// Calls `body` with every choice of three numbers of a grid.
template <class Body>
void for_each_sample(double step, const Body& body) {
  for (double a = -3; a <= 3; a += step) {
    for (double b = -3; b <= 3; b += step) {
      for (const double c : {-1.0, 2.0}) body(a, b, c);
    }
  }
}

/// Whether `row` makes whole numbers of whole numbers.
bool keeps_whole(const ir::PointwiseRow& row) {
  bool whole = true;
  for_each_sample(1, [&](double a, double b, double c) {
    const double result = row.reference(a, b, c);
    whole = whole && std::isfinite(result) && result == std::floor(result);
  });
  return whole;
}

/// Whether `row` takes a last bit for a leap somewhere, as comparisons do.
bool leaps(const ir::PointwiseRow& row) {
  constexpr double bit = 1e-12;
  bool found = false;
  for_each_sample(0.5, [&](double a, double b, double c) {
    const double here = row.reference(a, b, c);
    for (const double there : {row.reference(a + bit, b, c), row.reference(a - bit, b, c),
                               row.reference(a, b + bit, c), row.reference(a, b - bit, c)})
      found = found || !(std::fabs(here - there) < 1e-3);
  });
  return found;
}

Mesh random_mesh(Genes& genes) {
  const int ranks = 1 + static_cast<int>(genes.below(5));
  if (!genes.one_in(3)) return Mesh({{"world", ranks}});
  const int inner = genes.any(std::array{1, 2, ranks});
  return ranks % inner == 0 ? Mesh({{"a", ranks / inner}, {"b", inner}})
                            : Mesh({{"a", ranks}, {"b", 1}});
}

/// Builds one program. What a rule of the language refuses is not added.
class Author {
 public:
  explicit Author(Genes& genes)
      : genes_(genes),
        family_(genes.any(families)),
        made_{Program("random", random_mesh(genes)), {}, false, true} {
    constexpr std::int64_t lengths[] = {1, 2, 3, 5, 16, 17, 40, 130};
    made_.in_rank_order = !family_.whole && genes_.one_in(2);
    made_.sizes = {{"n", genes_.any(lengths)}, {"m", genes_.any(lengths)}};
    Dim n = program().dim("n"), m = program().dim("m");
    if (genes_.one_in(3)) {  // as windows and pads need them
      n = Dim(made_.sizes.at("n"));
      m = Dim(made_.sizes.at("m"));
    }
    shapes_ = genes_.one_in(2) ? std::vector<Shape>{{n, m}, {m}, {n, 1}, {1, m}, {m, n}, {}}
                               : std::vector<Shape>{{n}, {n}, {1}, {}};
  }

  RandomProgram write() {
    add_leaf(shapes_[0], local, false);
    add_leaf(shapes_[0], genes_.one_in(3) ? local : replicated, true);
    for (std::size_t i = genes_.below(4); i > 0; --i) {
      const Shape shape = genes_.any(shapes_);
      std::vector<std::pair<std::string, Placement>> along;
      for (const Mesh::Axis& axis : program().mesh().axes())
        along.emplace_back(axis.name, placement(shape));
      attempt([&] { add_leaf(shape, Layout::on(along), genes_.one_in(2)); });
    }
    // Most programs that are worth a schedule begin so.
    const Value total = all_reduce_everywhere(values_[0].value);
    for (std::size_t i = 1 + genes_.below(9); i > 0; --i) attempt([&] { add_op(); });
    for (const Value& state : states_) attempt([&] { add_update(state); });
    for (std::size_t i = genes_.below(3); i > 0; --i) attempt([&] { add_output(); });
    if (ir::graph_of(program())->outputs().empty()) program().output("the_total", total);
    return made_;
  }

 private:
  Program& program() { return made_.program; }
  ir::Graph& graph() { return *ir::graph_of(program()); }

  template <class Body>
  void attempt(const Body& body) {
    try {
      body();
    } catch (const ProgramError&) {
    }
  }

  Placement placement(const Shape& shape) {
    const std::size_t choice = genes_.below(2 + shape.size());
    return choice == 0 ? replicated : choice == 1 ? local : sliced(static_cast<int>(choice) - 2);
  }

  void add_leaf(const Shape& shape, const Layout& layout, bool is_state) {
    const std::string number = std::to_string(ir::graph_of(program())->nodes().size());
    const Value leaf = is_state ? program().state("state" + number, family_.dtype, shape, layout)
                                : program().input("in" + number, family_.dtype, shape, layout);
    if (is_state) states_.push_back(leaf);
    values_.push_back({in_family(leaf), small, family_.whole || !is_state});
  }

  /// `leaf` with what the application, or an update of a step before, may have put into it brought
  /// into the family.
  Value in_family(const Value& leaf) {
    if (!family_.whole || size_of(family_.dtype) == 1) return leaf;
    if (!is_float(family_.dtype)) return maximum(minimum(leaf, small), -small);
    return cast(cast(maximum(minimum(8 * leaf, small), -small), i32), family_.dtype);
  }

  Value all_reduce_everywhere(Value value) {
    double bound = small;
    for (const Mesh::Axis& axis : program().mesh().axes()) {
      value = all_reduce(value, sum, axis.name);
      bound *= axis.size;
    }
    add({value.named("total"), bound, made_.in_rank_order || family_.whole});
    made_.exact = made_.exact && values_.back().exact;
    return value;
  }

  /// Takes `made` among the values unless numbers may be too large to be exact.
  bool add(const Known& made) {
    if (family_.whole && !(made.bound <= family_.largest)) return false;
    values_.push_back(made);
    return true;
  }

  Known any_value() { return genes_.any(values_); }

  /// The absolute value that no element of `dtype` exceeds.
  static double largest_of(DType dtype) {
    if (is_float(dtype)) return std::numeric_limits<double>::infinity();
    return dtype == u8 || dtype == boolean
               ? 255
               : std::ldexp(1, 8 * static_cast<int>(size_of(dtype)) - 1);
  }

  /// A value as integers of another dtype, which saturate or wrap around, and back.
  void add_conversion() {
    const Known from = any_value();
    constexpr DType integers[] = {i64, i32, i16, i8, u8};
    const DType to = genes_.any(integers);
    const bool floats = is_float(family_.dtype);
    if (!from.exact || from.value.dtype() != family_.dtype || (!floats && to == i64)) return;
    // An infinity, or NaN of 0.
    const bool leaves = floats && genes_.one_in(2);
    const Value there = cast(leaves ? from.value * HUGE_VAL : from.value, to);
    const double bound = floats && !leaves ? std::min(from.bound, largest_of(to)) : largest_of(to);
    add({cast(there, family_.dtype), bound, true});
  }

  void add_op() {
    switch (genes_.below(7)) {
      case 6:
        return add_conversion();
      case 0:
        if (!family_.whole) add_normalisation();
        return;
      case 1:
      case 2:
        add_structural();
        return;
      default:
        add_pointwise();
        return;
    }
  }

  void add_normalisation() {
    const Known from = any_value();
    const int dim = -1 - static_cast<int>(genes_.below(2));
    const Value made = genes_.one_in(2) ? softmax(from.value, dim) : layer_norm(from.value, dim);
    made_.exact = false;
    add({made, 0, false});
  }

  // ---- pointwise

  /// A value of `dtype`, or a number that every dtype holds.
  Known operand(DType dtype) {
    std::vector<Known> fitting;
    for (const Known& known : values_) {
      if (known.value.dtype() == dtype) fitting.push_back(known);
    }
    if (fitting.empty() || genes_.one_in(8)) {
      const int number = 1 + static_cast<int>(genes_.below(3));
      return {number, static_cast<double>(number), true};
    }
    return genes_.any(fitting);
  }

  void add_pointwise() {
    std::vector<const ir::PointwiseRow*> rows;
    for (const ir::PointwiseRow& row : ir::pointwise_table()) {
      if (accepts(row.rule, family_.dtype) && (!family_.whole || keeps_whole(row)))
        rows.push_back(&row);
    }
    const ir::PointwiseRow& row = *genes_.any(rows);
    const DType dtype = row.rule == ir::DTypeRule::logical ? boolean : family_.dtype;
    const Known condition = operand(boolean);
    const std::array<Known, 3> operands = {operand(dtype), operand(dtype), operand(dtype)};
    Known made{
        apply_row(row, condition.value, {operands[0].value, operands[1].value, operands[2].value})};
    const bool chooses = row.rule == ir::DTypeRule::choose;
    made.exact = !chooses || condition.exact;
    for (int i = 0; i < row.arity - (chooses ? 1 : 0); ++i)
      made.exact = made.exact && operands[static_cast<std::size_t>(i)].exact;
    // Functions are within units in the last place of the reference's.
    constexpr int of_functions = 20;
    if (!family_.whole && row.cost >= of_functions) made.exact = made_.exact = false;
    if (!made.exact && (leaps(row) || (chooses && !condition.exact))) return;
    made.bound = chooses ? std::max(operands[0].bound, operands[1].bound)
                         : bound_of(row, {operands[0].bound, operands[1].bound, operands[2].bound});
    made.bound = std::min(made.bound, largest_of(made.value.dtype()));
    if (ir::graph_of(made.value) && !graph().at(ir::id_of(made.value)).weak) add(made);
  }

  // ---- structural

  ir::Attributes random_attributes(std::size_t rank) {
    ir::Attributes attributes;
    do {
      attributes.reduction = genes_.any(all_reductions);
    } while (family_.whole && attributes.reduction == Reduction::mean && genes_.below(2) > 0);
    const auto& axes = program().mesh().axes();
    attributes.axis = static_cast<int>(genes_.below(axes.size()));
    const auto size =
        static_cast<std::size_t>(axes[static_cast<std::size_t>(attributes.axis)].size);
    attributes.root = static_cast<int>(genes_.below(size));
    attributes.offset = genes_.any(std::array{1, -1, 2});
    attributes.dim = static_cast<int>(genes_.below(2));
    for (std::size_t dim = 0; dim < rank; ++dim) {
      if (genes_.one_in(2)) attributes.dims.push_back(static_cast<int>(dim));
      const std::size_t place = genes_.below(dim + 1);
      attributes.permutation.insert(
          attributes.permutation.begin() + static_cast<std::ptrdiff_t>(place),
          static_cast<int>(dim));
    }
    attributes.inserted = {static_cast<int>(genes_.below(rank + 1))};
    attributes.shape = genes_.any(shapes_);
    attributes.begin = static_cast<std::int64_t>(genes_.below(4));
    attributes.end = attributes.begin + 1 + static_cast<std::int64_t>(genes_.below(20));
    attributes.step = 1 + static_cast<int>(genes_.below(3));
    attributes.before = static_cast<std::int64_t>(genes_.below(5));
    attributes.after = static_cast<std::int64_t>(genes_.below(20));
    attributes.keep_dims = genes_.one_in(2);
    attributes.transpose_a = genes_.one_in(2);
    attributes.transpose_b = genes_.one_in(2);
    const std::array letters = {"ij,jk->ik", "ij,jk->ki", "ij,kj->jik", "ij,ij->j", "ij,j->i",
                                "i,ij->j",   "i,j->ji",   "i,i->",      "ij,ji->"};
    attributes.letters = genes_.any(letters);
    attributes.probability = 0.5;  // which doubles what it keeps
    attributes.seed = genes_.below(100);
    return attributes;
  }

  Value step_number() {
    const ir::ValueId known = graph().find("t");
    return known >= 0 ? ir::value_of(ir::graph_of(program()), known) : program().scalar("t");
  }

  double extent(const Dim& dim) {
    return static_cast<double>(dim.symbolic() ? made_.sizes.at(dim.name) : dim.extent);
  }

  /// How many numbers one result of `node` combines, and by what.
  struct Combined {
    double count = 1;
    Reduction reduction = Reduction::max;
    bool across_ranks = false;
  };
  Combined combined_by(const ir::Node& node, const Known& from) {
    Combined combined{1, node.attributes.reduction, ir::reduces_over_ranks(node.op)};
    if (combined.across_ranks)
      combined.count = program().mesh().axes()[static_cast<std::size_t>(node.attributes.axis)].size;
    if (node.op == ir::Op::reduction) {
      for (const int dim : node.attributes.dims)
        combined.count *= extent(from.value.shape()[static_cast<std::size_t>(dim)]);
    }
    const bool is_product = ir::kind_of(node.op) == ir::OpKind::product;
    if (is_product) {
      for (const std::size_t dim : ir::contracted_dims(ir::factors_of(graph(), node, 0)))
        combined.count *= extent(from.value.shape()[dim]);
      combined.reduction = Reduction::sum;
    }
    const bool combines = combined.across_ranks || node.op == ir::Op::reduction || is_product;
    if (!combines) combined.reduction = Reduction::max;
    return combined;
  }

  void add_structural() {
    // Conversions make dtypes that are not the family's.
    const std::set<ir::Op> others = {ir::Op::update,          ir::Op::cast,
                                     ir::Op::stochastic_cast, ir::Op::upper_half,
                                     ir::Op::lower_half,      ir::Op::join_halves};
    std::vector<ir::Op> ops;
    for (const ir::Op op : structural_ops()) {
      if (ir::arity(op) > 0 && !others.contains(op)) ops.push_back(op);
    }
    const Known from = any_value();
    Known other = any_value();
    ir::Node node;
    node.op = genes_.any(ops);
    node.attributes = random_attributes(from.value.shape().size());
    if (node.op == ir::Op::dropout) other = {step_number(), 1, true};
    if (node.op == ir::Op::take) {
      const std::size_t behind = from.value.shape().size() - 1 - (node.attributes.dim > 0 ? 1 : 0);
      Shape places{5};
      if (behind < 2) places.resize(1 + behind, Dim(1));
      other = {genes_.any(std::array{2, 3}) * program().iota(places) - 1, 20, true};
    }
    const ir::ValueId id =
        try_append(graph(), node, {ir::id_of(from.value), ir::id_of(other.value)});
    if (id < 0) return;
    const Combined combined = combined_by(graph().at(id), from);
    Known made{ir::value_of(ir::graph_of(program()), id), from.bound, from.exact};
    if (ir::kind_of(node.op) == ir::OpKind::product) {
      made.bound *= other.bound;
      made.exact = made.exact && other.exact;
    }
    if (node.op == ir::Op::dropout) made.bound *= 2;
    if (combined.reduction == Reduction::sum) made.bound *= combined.count;
    if (combined.reduction == Reduction::prod) made.bound = std::pow(made.bound, combined.count);
    if (combined.reduction == Reduction::mean && family_.whole) return;
    const bool orders =
        combined.reduction == Reduction::max || combined.reduction == Reduction::min;
    if (!family_.whole && !orders && !(combined.across_ranks && made_.in_rank_order)) {
      made.exact = false;
      made_.exact = false;
    }
    made.bound = std::min(made.bound, largest_of(made.value.dtype()));
    add(made);
  }

  // ---- what is kept

  void add_update(const Value& state) {
    std::vector<Value> fitting;
    for (const Known& known : values_) {
      if (known.value.dtype() == state.dtype() && known.value.shape() == state.shape() &&
          ir::id_of(known.value) != ir::id_of(state)) {
        fitting.push_back(known.value);
      }
    }
    std::reverse(fitting.begin(), fitting.end());  // the last that were made depend on most
    if (fitting.empty()) return;
    update(state, genes_.any(fitting));
  }

  void add_output() {
    std::vector<Value> computed;
    for (const Known& known : values_) {
      const ir::Op op = graph().at(ir::id_of(known.value)).op;
      if (op != ir::Op::input && op != ir::Op::state) computed.push_back(known.value);
    }
    std::reverse(computed.begin(), computed.end());
    program().output("out" + std::to_string(graph().outputs().size()), genes_.any(computed));
  }

  static constexpr int small = 8;

  Genes& genes_;
  Family family_;
  RandomProgram made_;
  std::vector<Shape> shapes_;
  std::vector<Known> values_;
  std::vector<Value> states_;
};

}  // namespace

RandomProgram write_random_program(Genes& genes) {
  return Author(genes).write();
}

}  // namespace coconet::test
