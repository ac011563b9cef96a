// Kernels of every kind: collectives at both ends, as far as `fuse` takes them, and computation
// between them.
#include <array>
#include <optional>

#include "coconet/error.h"
#include "ir/access.h"
#include "jit/codegen/op_variations.h"
#include "jit/codegen/table.h"
#include "sched/knobs.h"

namespace coconet::test {

namespace {

/// What is between the ends of a kernel.
enum class Computation : std::uint8_t { none, pointwise, reduction };

/// A kernel to try. An end that is no collective is the op `input`.
struct Shape {
  ir::Fusion::Kind kind;
  ir::Op first;
  Computation computation;
  ir::Op last;
};

/// What has no bearing on whether a kernel is legal takes turns: every kernel gets the next of
/// each.
class Turns {
 public:
  template <class Range>
  auto next(const Range& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(taken_++ % std::size(range)));
  }

 private:
  std::size_t taken_ = 0;
};

/// The kernels of one number of ranks.
class KernelAuthor {
 public:
  explicit KernelAuthor(int ranks) : ranks_(ranks) {}

  /// The run of a kernel of `shape`, or nothing when it is not legal.
  std::optional<TableRun> run(const Shape& shape, DType dtype, Knobs knobs) {
    const Attributes attributes = next_attributes(dtype);
    knobs.chunk_bytes = 1024;  // so that there are many chunks of little data
    knobs.channels = channels_.next(std::array{0, 2, 3});
    for (const Placement placement : {local, sliced(attributes.dim), replicated}) {
      for (const bool writes : {true, false}) {
        try {
          const Built built = build(shape, dtype, attributes, placement, writes);
          Schedule schedule("one kernel");
          schedule.fuse("kernel", std::string(ir::to_string(shape.kind)), built.ops, knobs);
          (void)schedule.apply(built.program);
          return TableRun{built.program,
                          schedule,
                          {check_of({{"n", 3}, {"m", 2}}, 2), check_of({{"n", 67}, {"m", 31}}, 2)}};
        } catch (const ProgramError&) {
        } catch (const ScheduleError&) {
        }
      }
    }
    return std::nullopt;
  }

 private:
  using Attributes = ir::Attributes;

  struct Built {
    Program program;
    std::vector<std::string> ops;  ///< to fuse
  };

  Attributes next_attributes(DType dtype) {
    Attributes attributes;
    do {
      attributes.reduction = reductions_.next(all_reductions);
    } while (dtype != DType::boolean && !reduces(attributes.reduction, dtype));
    attributes.dim = dims_.next(std::array{0, 1});
    attributes.root = roots_.next(std::array{ranks_ / 2, ranks_ - 1, 0});
    attributes.offset = offsets_.next(std::array{1, -1, ranks_ > 2 ? 2 : 1});
    return attributes;
  }

  Built build(const Shape& shape, DType dtype, const Attributes& attributes, Placement placement,
              bool writes) {
    Built built{Program("kernels", Mesh({{"world", ranks_}})), {}};
    Program& program = built.program;
    const Dim n = program.dim("n"), m = program.dim("m");
    const auto keep = [&](const Value& value) { built.ops.push_back(value.name()); };
    Value value = program.state("g", dtype, {n, m}, placement);
    const auto exchange = [&](ir::Op op) {
      if (op == ir::Op::input) return;
      ir::Node node;
      node.op = op;
      node.operands = {ir::id_of(value)};
      node.attributes = attributes;
      value =
          ir::value_of(ir::graph_of(program), ir::append(*ir::graph_of(program), std::move(node)));
      keep(value);
    };
    exchange(shape.first);
    if (shape.computation != Computation::none) {
      value = computed(program, value, shape.computation == Computation::reduction,
                       attributes.reduction);
      keep(value);
    }
    exchange(shape.last);
    if (writes) {
      const Layout layout(value.layout().front());
      keep(update(program.state("w", dtype, {n, m}, layout), value));
    } else {
      program.output("result", value);
    }
    return built;
  }

  /// `value` and some pointwise ops, the next ones of the table, of other tensors, whose values are
  /// exact: where a last bit decides, as in comparisons, sums in another order would not do.
  Value computed(Program& program, const Value& value, bool reduces_value, Reduction reduction) {
    const DType dtype = value.dtype();
    const Dim n = value.shape()[0], m = value.shape()[1];
    const Value x = program.state("x", dtype, {n, m}, replicated);
    const Value row = program.input("row", dtype, {m}, replicated);
    const Value flags = program.input("flags", boolean, {n, 1}, replicated);
    Value result = value;
    for (int count = 0; count < 3;) {
      const ir::PointwiseRow& op = rows_.next(ir::pointwise_table());
      if (!accepts(op.rule, dtype)) continue;
      ++count;
      const Value made = cast(apply_row(op, flags, {x, x * row, x}), dtype);
      result = dtype == DType::boolean ? logical_or(result, made) : result + made;
    }
    return reduces_value ? result + x * Reducer{reduction}(value) : result;
  }

  int ranks_;
  Turns rows_, channels_, reductions_, dims_, roots_, offsets_;
};

/// All shapes, legal or not.
std::vector<Shape> shapes() {
  std::vector<ir::Op> ends = {ir::Op::input};
  for (const ir::Op op : structural_ops()) {
    if (ir::is_collective(op)) ends.push_back(op);
  }
  std::vector<Shape> all;
  for (const ir::Fusion::Kind kind : ir::fusion_kinds) {
    for (const ir::Op first : ends) {
      for (const ir::Op last : ends) {
        for (const Computation computation :
             {Computation::none, Computation::pointwise, Computation::reduction})
          all.push_back({kind, first, computation, last});
      }
    }
  }
  return all;
}

}  // namespace

std::vector<PossibleRun> runs_of_kernels() {
  std::vector<PossibleRun> runs;
  Turns dtypes;
  for (const int ranks : rank_counts) {
    KernelAuthor author(ranks);
    for (const Shape& shape : shapes()) {
      if (!author.run(shape, f32, {})) continue;
      for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
        for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
          Knobs knobs;
          knobs.algorithm = algorithm.name;
          knobs.protocol = protocol.name;
          auto run = author.run(shape, dtypes.next(all_dtypes), knobs);
          if (!run) run = author.run(shape, f32, knobs);
          if (run) runs.push_back([run] { return run; });
        }
      }
    }
  }
  return runs;
}

}  // namespace coconet::test
