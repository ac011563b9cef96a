// Random programs with a loss that is smooth nearly everywhere: all ops that have gradients, on
// ranks along one or two axes, with tensors of every layout.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "coconet/error.h"
#include "coconet/functions.h"
#include "genes.h"
#include "ir/access.h"
#include "ir/extents.h"

namespace coconet::test {

struct RandomLoss {
  Program program;
  ir::Sizes sizes;
  Value loss;
  std::vector<Value> leaves;  ///< those that the loss depends on
};

/// Reads a program of f64 from genes.
class LossAuthor {
 public:
  /// Where it `bends`, it has ops that take a last bit for a leap of a derivative somewhere.
  LossAuthor(Genes& genes, bool bends) : genes_(genes), bends_(bends) {}

  RandomLoss write() {
    Program program("random", mesh());
    Dim n = program.dim("n"), m = program.dim("m");
    const std::array<std::int64_t, 5> lengths = {1, 2, 3, 4, 5};
    RandomLoss made{program, {{"n", genes_.any(lengths)}, {"m", genes_.any(lengths)}}, {}, {}};
    if (one_in(2)) {  // as windows need them
      n = Dim(made.sizes.at("n"));
      m = Dim(made.sizes.at("m"));
    }
    shapes_ = {{n, m}, {m}, {n, 1}, {m, n}, {n}, {}};
    axes_ = program.mesh().axes();
    values_.clear();
    for (std::size_t i = 3 + below(3); i > 0; --i) attempt([&] { add_leaf(program, made.leaves); });
    const std::size_t leaves = values_.size();
    for (std::size_t i = 6 + below(12); i > 0; --i) attempt([&] { add_op(); });
    std::vector<Value> totals;
    for (std::size_t i = 0; i < 3; ++i)
      totals.push_back(total_of(values_[values_.size() - 1 - below(values_.size() - leaves + 1)]));
    made.loss = (totals[0] + totals[1] * totals[1] + sin(totals[2])).named("loss");
    std::erase_if(made.leaves, [&](const Value& leaf) { return !leads_to(leaf, made.loss); });
    return made;
  }

 private:
  std::size_t below(std::size_t limit) { return genes_.below(limit); }
  bool one_in(std::size_t count) { return genes_.one_in(count); }
  template <class Body>
  static void attempt(const Body& body) {
    try {
      body();
    } catch (const ProgramError&) {
    }
  }

  Mesh mesh() {
    const int ranks = 1 + static_cast<int>(below(4));
    if (one_in(2)) return Mesh({{"world", ranks}});
    const int inner = ranks % 2 == 0 ? 2 : 1;
    return Mesh({{"a", ranks / inner}, {"b", inner}});
  }

  std::string axis() { return genes_.any(axes_).name; }

  void add_leaf(Program& program, std::vector<Value>& leaves) {
    const Shape shape = genes_.any(shapes_);
    std::vector<std::pair<std::string, Placement>> along;
    for (const Mesh::Axis& axis : axes_) {
      const std::size_t choice = below(2 + shape.size());
      along.emplace_back(axis.name, choice == 0   ? replicated
                                    : choice == 1 ? local
                                                  : sliced(static_cast<int>(choice) - 2));
    }
    const std::string name = "x" + std::to_string(values_.size());
    values_.push_back(one_in(2) ? program.input(name, f64, shape, Layout::on(along))
                                : program.state(name, f64, shape, Layout::on(along)));
    leaves.push_back(values_.back());
  }

  /// The last ones are read most, so that programs become deep.
  Value value() {
    return one_in(2) ? values_[values_.size() - 1 - below(std::min<std::size_t>(values_.size(), 3))]
                     : genes_.any(values_);
  }
  Value operand() { return one_in(8) ? Value(0.5 * (1 + static_cast<double>(below(4)))) : value(); }

  void add_op() {
    const std::size_t kind = below(10);
    Value made = kind < 3 ? of_one() : kind < 6 ? of_two() : structural();
    // Nothing grows beyond where differences are exact.
    if (!made.is_empty()) values_.push_back(one_in(3) ? tanh(made) : made);
  }

  Value of_one() {
    const Value x = value();
    switch (below(16)) {
      case 0:
        return sin(x);
      case 1:
        return cos(x) * 0.5;
      case 2:
        return sigmoid(x);
      case 3:
        return gelu(x);
      case 4:
        return silu(x);
      case 5:
        return exp(tanh(x));
      case 6:
        return log(square(x) + 1);
      case 7:
        return sqrt(square(x) + 0.5);
      case 8:
        return rsqrt(square(x) + 0.5);
      case 9:
        return reciprocal(square(x) + 1);
      case 10:
        return bends_ ? relu(x) : x;
      case 11:
        return erf(x) - x;
      case 12:
        return log1p(square(x));
      case 13:
        return expm1(sin(x));
      case 14:
        return pow(square(x) + 0.5, 1.5);
      default:
        return bends_ ? abs(x) : square(x);
    }
  }

  Value of_two() {
    const Value x = value(), y = operand();
    switch (below(9)) {
      case 0:
        return x + y;
      case 1:
        return x - y;
      case 2:
        return x / (square(y) + 1);
      case 3:
        return bends_ ? minimum(x, y) : x + y;
      case 4:
        return bends_ ? maximum(x, y) : x * y;
      case 5:
        return bends_ ? select(x < y, sin(x), y) : x - y;
      case 6:
        return pow(square(x) + 0.5, tanh(y));
      default:
        return x * y;
    }
  }

  std::vector<int> dims_of(const Value& x) {
    std::vector<int> dims;
    for (int d = 0; d < static_cast<int>(x.shape().size()); ++d) {
      if (one_in(2)) dims.push_back(d);
    }
    return dims;
  }

  /// Elements of `x` at other places.
  Value elsewhere(const Value& x, const Shape& other) {
    const int dim = static_cast<int>(below(2));
    const auto some = [&](std::size_t limit) { return static_cast<std::int64_t>(below(limit)); };
    switch (below(4)) {
      case 0: {
        if (std::ssize(x.shape()) <= dim || x.shape()[dim].symbolic()) return {};
        const std::int64_t extent = x.shape()[dim].extent, begin = some(extent);
        return window(x, dim, begin, begin + 1 + some(extent - begin),
                      1 + static_cast<int>(below(3)));
      }
      case 1: {
        const std::int64_t before = some(3);
        return pad(x, dim, before, some(3));
      }
      case 2:
        if (x.shape().size() != 2) return reshape(x, other);
        return reshape(x, one_in(2) ? Shape{x.shape()[1], x.shape()[0]} : other);
      default: {
        const Value places = ir::program_of(ir::graph_of(x)).iota({4}) * 2 - 1;
        return take(x, one_in(2) ? places : expand_dims(places, {0}), dim);
      }
    }
  }

  Value structural() {
    const Value x = value(), y = value();
    const int dim = static_cast<int>(below(2));
    const Reduction adds = one_in(2) ? Reduction::sum : Reduction::mean;
    switch (below(24)) {
      case 20:
      case 21:
      case 22:
      case 23:
        return elsewhere(x, y.shape());
      case 0:
        return sum(x, dims_of(x), one_in(2));
      case 1:
        return mean(x, dims_of(x), one_in(2));
      case 2:
        return bends_ ? max(x, dims_of(x), one_in(2)) : Value();
      case 3:
        return bends_ ? min(x, dims_of(x), one_in(2)) : Value();
      case 4:
        return prod(sin(x), dims_of(x), one_in(2));
      case 5:
        return softmax(x, -1 - dim);
      case 6:
        return layer_norm(x, -1 - dim, 0.1);
      case 7:
        return transpose(x, {1, 0});
      case 8:
        return slice(x, dim, axis());
      case 9:
        return as_local(x, axis());
      case 10:
        return expand(x, y);
      case 11:
        return expand_dims(x, {dim});
      case 12:
        return reduce_scatter(x, adds, dim, axis());
      case 13:
        return all_gather(x, axis());
      case 14:
        return all_to_all(x, dim, axis());
      case 15:
        return send(x, one_in(2) ? 1 : -1, axis());
      case 16:
        return dropout(x, 0.5, below(100));
      case 17:
        return matmul(x, y, one_in(2), one_in(2));
      case 18: {
        const std::array letters = {"ij,jk->ik", "ij,jk->ki", "ij,ij->i", "ij,ij->", "ij,kj->kij",
                                    "ij,j->i",   "i,j->ji",   "i,i->",    "ij,ji->j"};
        return contract(x, y, genes_.any(letters));
      }
      default:
        return all_reduce(x, adds, axis());
    }
  }

  Value total_of(Value value) {
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      if (value.layout()[axis] == local)
        value = all_reduce(value, one_in(2) ? Reduction::sum : Reduction::mean, axes_[axis].name);
    }
    return one_in(2) ? sum(value) : mean(value);
  }

  static bool leads_to(const Value& leaf, const Value& loss) {
    const ir::Graph& graph = *ir::graph_of(leaf);
    std::vector<char> depends(static_cast<std::size_t>(graph.size()), 0);
    depends[static_cast<std::size_t>(ir::id_of(leaf))] = 1;
    for (ir::ValueId id = 0; id <= ir::id_of(loss); ++id) {
      if (graph.at(id).dtype == boolean) continue;
      for (const ir::ValueId from : graph.at(id).operands) {
        if (depends[static_cast<std::size_t>(from)]) depends[static_cast<std::size_t>(id)] = 1;
      }
    }
    return depends[static_cast<std::size_t>(ir::id_of(loss))] != 0;
  }

  Genes& genes_;
  const bool bends_;
  std::vector<Shape> shapes_;
  std::vector<Mesh::Axis> axes_;
  std::vector<Value> values_;
};

}  // namespace coconet::test
