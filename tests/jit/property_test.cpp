// Random programs under random legal schedules equal the reference, bit for bit where arithmetic is
// exact.
//
// A case is two lists of numbers, the genes: from one the ranks, the sizes and the program are
// read, from the other the schedule. An exhausted list reads as zeros. Fewer and smaller numbers
// make a simpler case, which is how a failure shrinks.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "jit/algo/algorithm.h"
#include "jit/conformance.h"
#include "sched/plan.h"
#include "sched/schedule.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr int cases = 300;

class Genes {
 public:
  explicit Genes(const std::vector<std::uint32_t>& genes) : genes_(genes) {}
  /// A number below `limit`.
  std::size_t below(std::size_t limit) {
    return next_ < genes_.size() ? genes_[next_++] % limit : 0;
  }
  bool one_in(std::size_t count) { return below(count) + 1 == count; }
  template <class Range>
  auto any(Range&& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(below(std::size(range))));
  }

 private:
  const std::vector<std::uint32_t>& genes_;
  std::size_t next_ = 0;
};

/// What a dtype leaves exact decides what its programs may be made of, so that even comparisons and
/// floor, where a last bit decides, must come out alike.
struct Family {
  DType dtype;
  bool calls;          ///< rows that call a function: in f64 the reference calls the same one
  bool rounding_sums;  ///< sums over ranks: in rank order on both sides, but the reference adds in
                       ///< double
};
constexpr Family families[] = {
    {f64, true, true}, {f32, false, false}, {f16, false, false},
    {i8, true, true},  {u8, true, true},    {f64, true, true},
};

bool calls_function(const ir::PointwiseRow& row) {
  return row.device.find("_(") != std::string_view::npos;
}

/// Builds one random program. What a rule of the language refuses is not added.
class Author {
 public:
  Author(Genes& genes, int ranks)
      : genes_(genes),
        ranks_(ranks),
        family_(genes.any(families)),
        program_("random", Mesh({{"world", ranks}})) {
    const Dim n = program_.dim("n");
    const Dim m = program_.dim("m");
    const bool matrix = genes_.one_in(2);
    shapes_ = matrix ? std::vector<Shape>{{n, m}, {m}, {n, 1}, {1, m}, {}}
                     : std::vector<Shape>{{n}, {n}, {1}, {}};
  }

  Program write() {
    const Value input = program_.input("in0", family_.dtype, shapes_[0], local);
    values_.push_back(input);
    states_.push_back(
        program_.state("state0", family_.dtype, shapes_[0], genes_.one_in(3) ? local : replicated));
    values_.push_back(states_[0]);
    for (std::size_t i = genes_.below(3); i > 0; --i) add_leaf(i);
    values_.push_back(all_reduce(input, reduction()).named("total"));
    for (std::size_t i = 1 + genes_.below(9); i > 0; --i) attempt([&] { add_op(); });
    for (const Value& state : states_) attempt([&] { add_update(state); });
    for (std::size_t i = genes_.below(3); i > 0; --i) attempt([&] { add_output(); });
    if (program_.graph()->outputs.empty()) add_total();
    return program_;
  }

  [[nodiscard]] double tolerance() const { return reorders_ ? 1e-9 : 0; }

 private:
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

  void add_leaf(std::size_t number) {
    const Shape shape = genes_.any(shapes_);
    const Placement where = placement(shape);
    const std::string suffix = std::to_string(number);
    if (genes_.one_in(2)) {
      states_.push_back(program_.state("state" + suffix, family_.dtype, shape, where));
      values_.push_back(states_.back());
    } else {
      values_.push_back(program_.input("in" + suffix, family_.dtype, shape, where));
    }
  }

  /// One that this dtype and this number of ranks leave exact.
  Reduction reduction() {
    std::vector<Reduction> exact;
    for (const Reduction one : all_reductions) {
      const bool orders = one == Reduction::max || one == Reduction::min;
      if (reduces(one, family_.dtype) && (orders || family_.rounding_sums || ranks_ <= 2))
        exact.push_back(one);
    }
    return genes_.any(exact);
  }

  Value value() { return genes_.any(values_); }

  /// A value of `dtype`, which there may be none of, or a number that every dtype holds.
  Value value_of(DType dtype) {
    std::vector<Value> fitting;
    for (const Value& candidate : values_) {
      if (candidate.dtype() == dtype) fitting.push_back(candidate);
    }
    if (fitting.empty() || genes_.one_in(8)) return 1 + static_cast<int>(genes_.below(3));
    if (is_float(dtype) && genes_.one_in(8)) return scalar();
    return genes_.any(fitting);
  }

  Value scalar() {
    const ir::ValueId known = program_.graph()->find("half");
    return known >= 0 ? Value(program_.graph(), known) : program_.scalar("half");
  }

  void add_op() {
    switch (genes_.below(10)) {
      case 6: {
        values_.push_back(all_reduce(value(), reduction()));
        return;
      }
      case 7: {
        if (!family_.rounding_sums) return;
        const Value operand = value();
        if (operand.shape().empty()) return;
        std::vector<int> dims = {static_cast<int>(genes_.below(operand.shape().size()))};
        if (genes_.one_in(3)) {
          dims.clear();
          for (std::size_t d = 0; d < operand.shape().size(); ++d)
            dims.push_back(static_cast<int>(d));
        }
        values_.push_back(Reducer{reduction()}(operand, dims, genes_.one_in(2)));
        reorders_ = reorders_ || is_float(family_.dtype);
        return;
      }
      case 8: {
        constexpr double doubles_what_it_keeps = 0.5;  // which is exact
        const std::uint64_t seed = genes_.below(100);
        values_.push_back(
            dropout(value(), doubles_what_it_keeps, seed, static_cast<int>(genes_.below(3))));
        return;
      }
      case 9: {
        if (!family_.rounding_sums) return;
        const Value left = value();
        const Value right = value();
        const bool transpose_left = genes_.one_in(2);
        values_.push_back(matmul(left, right, transpose_left, genes_.one_in(2)));
        reorders_ = true;
        return;
      }
      default:
        break;
    }
    std::vector<const ir::PointwiseRow*> rows;
    for (const ir::PointwiseRow& row : ir::pointwise_table()) {
      if (accepts(row.rule, family_.dtype) && (family_.calls || !calls_function(row)))
        rows.push_back(&row);
    }
    const ir::PointwiseRow& row = *genes_.any(rows);
    const DType operands = row.rule == ir::DTypeRule::logical ? boolean : family_.dtype;
    const Value condition = value_of(boolean);
    const Value made =
        apply_row(row, condition, {value_of(operands), value_of(operands), value_of(operands)});
    if (made.graph() && !program_.graph()->at(made.id()).weak) values_.push_back(made);
  }

  void add_update(const Value& state) {
    std::vector<Value> fitting;
    for (const Value& candidate : values_) {
      if (candidate.dtype() == state.dtype() && candidate.shape() == state.shape() &&
          candidate.id() != state.id()) {
        fitting.push_back(candidate);
      }
    }
    std::reverse(fitting.begin(), fitting.end());  // the last that were made depend on most
    if (fitting.empty()) return;
    values_.push_back(update(state, genes_.any(fitting)));
  }

  void add_output() {
    std::vector<Value> computed;
    for (const Value& candidate : values_) {
      const ir::Op op = program_.graph()->at(candidate.id()).op;
      if (op != ir::Op::input && op != ir::Op::state && op != ir::Op::update)
        computed.push_back(candidate);
    }
    std::reverse(computed.begin(), computed.end());
    program_.output("out" + std::to_string(program_.graph()->outputs.size()), genes_.any(computed));
  }

  void add_total() {
    program_.output("the_total", Value(program_.graph(), program_.graph()->require("total")));
  }

  Genes& genes_;
  int ranks_;
  Family family_;
  Program program_;
  std::vector<Shape> shapes_;
  std::vector<Value> values_;
  std::vector<Value> states_;
  bool reorders_ = false;  ///< some sum of floats runs in another order than the reference's
};

// ---- schedules
// ----------------------------------------------------------------------------------------------

Knobs random_knobs(Genes& genes) {
  constexpr int channels[] = {0, 1, 2, 7, 64};
  constexpr int vector_bytes[] = {0, 4, 8, 16, 32, 64};
  Knobs knobs;
  // Only direct adds in the order of the ranks, as the reference does, which exact comparison needs.
  if (genes.one_in(2)) knobs.algorithm = jit::algorithms().front()->name;
  knobs.channels = genes.any(channels);
  knobs.vector_bytes = genes.any(vector_bytes);
  return knobs;
}

/// A step that fuses some of the ops, which may be legal.
sched::Step random_fusion(const ir::Graph& graph, Genes& genes, int number) {
  std::vector<std::string> ops;
  const bool collective = genes.one_in(2);
  for (const ir::Node& node : graph.nodes) {
    const bool computes = ir::is_elementwise(node.op) || node.op == ir::Op::update;
    const bool half = node.op == ir::Op::reduce_scatter || node.op == ir::Op::all_gather;
    if (!node.weak && (computes || (collective && half)) && !genes.one_in(3))
      ops.push_back(node.name);
  }
  return sched::complete({"fuse",
                          {{"kernel", "kernel_" + std::to_string(number)},
                           {"kind", std::string(collective ? "all_reduce" : "computation")},
                           {"ops", ops}}});
}

void turn_knobs(sched::Step& step, Genes& genes) {
  if (step.transformation != "fuse") return;
  const Knobs knobs = random_knobs(genes);
  step.arguments["algorithm"] = knobs.algorithm;
  step.arguments["channels"] = std::int64_t{knobs.channels};
  step.arguments["vector_bytes"] = std::int64_t{knobs.vector_bytes};
}

/// A random walk over legal steps.
Schedule random_schedule(const Program& program, Genes& genes) {
  Schedule::Steps steps{"random", {}};
  ir::Graph graph = *program.graph();
  for (std::size_t i = genes.below(9); i > 0; --i) {
    std::vector<sched::Step> legal;
    for (const sched::Transformation* transformation : sched::transformations()) {
      for (sched::Step& step : transformation->candidates(graph)) legal.push_back(std::move(step));
    }
    sched::Step fusion = random_fusion(graph, genes, static_cast<int>(i));
    if (sched::legal(graph, fusion).empty()) legal.push_back(std::move(fusion));
    if (legal.empty()) break;
    sched::Step step = genes.any(legal);
    turn_knobs(step, genes);
    const sched::Transformation& transformation = *sched::find_transformation(step.transformation);
    graph = transformation.apply(graph, step);
    steps.steps.push_back(std::move(step));
  }
  return Schedule::parse(sched::to_json(steps));
}

struct Tally {
  int run = 0, scheduled = 0, fused = 0, exact = 0;
};

/// Empty when the case holds.
std::string check_case(const std::vector<std::uint32_t>& of_program,
                       const std::vector<std::uint32_t>& of_schedule, Tally& tally) {
  constexpr std::int64_t lengths[] = {1, 2, 3, 5, 16, 17, 40, 130};
  Genes genes(of_program);
  Genes schedule_genes(of_schedule);
  const int ranks = 1 + static_cast<int>(genes.below(3));
  const Sizes sizes = {{"n", genes.any(lengths)}, {"m", genes.any(lengths)}};
  Author author(genes, ranks);
  const Program program = author.write();
  const Schedule schedule = random_schedule(program, schedule_genes);
  const auto shown = [&](const std::string& what) {
    return what + "\nranks: " + std::to_string(ranks) + ", " + to_text(sizes) +
           "\nprogram: " + program.json() + "\nschedule: " + schedule.json();
  };
  try {
    Checked checked;
    checked.sizes = sizes;
    checked.options.drive.iterations = 2;
    checked.options.tolerance = author.tolerance();
    std::vector<Checked> checks = {checked};
    run_checks(program, schedule, ranks, checks);
    ++tally.run;
    tally.scheduled += schedule.size() > 0 ? 1 : 0;
    tally.fused += schedule.json().find("\"kind\": \"all_reduce\"") != std::string::npos ? 1 : 0;
    tally.exact += author.tolerance() == 0 ? 1 : 0;
    return checks[0].result.passed ? std::string() : shown(checks[0].result.failure);
  } catch (const std::exception& error) {
    return shown(error.what());
  }
}

/// Lists of `least` to `most` numbers, all lengths and numbers alike likely from the first case on.
rc::Gen<std::vector<std::uint32_t>> random_genes(std::size_t least, std::size_t most) {
  const auto lists = rc::gen::mapcat(rc::gen::inRange(least, most + 1), [](std::size_t length) {
    return rc::gen::container<std::vector<std::uint32_t>>(length,
                                                          rc::gen::inRange<std::uint32_t>(0, 5040));
  });
  return rc::gen::resize(rc::kNominalSize, lists);
}

}  // namespace

TEST_CASE("random programs under random legal schedules equal the reference") {
  Tally tally;
  rc::detail::TestParams parameters = rc::detail::configuration().testParams;
  parameters.maxSuccess = cases;
  const auto result = rc::detail::checkTestable(
      [&] {
        const auto of_program = *random_genes(20, 90);
        const auto of_schedule = *random_genes(0, 80);
        const std::string failure = check_case(of_program, of_schedule, tally);
        if (!failure.empty()) RC_FAIL(failure);
      },
      rc::detail::TestMetadata{"random programs", "random programs equal the reference"},
      parameters);
  std::ostringstream shown;
  rc::detail::printResultMessage(result, shown);
  INFO(shown.str());
  CHECK(result.is<rc::detail::SuccessResult>());
  std::cout << tally.run << " programs run, " << tally.scheduled << " of them scheduled, "
            << tally.fused << " with fused collectives, " << tally.exact
            << " compared bit for bit\n";
  CHECK(tally.fused * 20 >= tally.run);
}
