// The check of a compiled step against the reference; see check.h.
#include "cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/data.h"
#include "coconet/error.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "ir/json/text.h"
#include "ir/reference/reference.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/nodes.h"

namespace coconet::cli {
namespace {

/// A tensor to compare: where it is in the program as written and in the scheduled one.
struct Tensor {
  std::string name;
  ir::ValueId written = -1;
  ir::ValueId scheduled = -1;
};

/// States and outputs of `written`. A schedule may drop a state that is neither read nor updated,
/// nothing else.
std::vector<Tensor> tensors_of(const ir::Graph& written, const ir::Graph& scheduled) {
  std::vector<Tensor> tensors;
  const auto add = [&](const std::string& name, ir::ValueId id, ir::ValueId found, bool droppable) {
    if (found >= 0) {
      tensors.push_back({name, id, found});
    } else if (!droppable) {
      throw InternalError("The schedule lost '" + name + "', which the program keeps.");
    }
  };
  for (ir::ValueId id = 0; id < written.size(); ++id) {
    const ir::Node& node = written.at(id);
    if (node.op == ir::Op::state)
      add(node.name, id, scheduled.find(node.name), written.update_of(id) < 0);
  }
  for (const ir::Output& output : written.outputs()) {
    add(output.name, output.value, scheduled.find_output(output.name), false);
  }
  return tensors;
}

/// Whether `id`, or what is written into it, is the lower half of an f32: every rounding changes
/// it, so that it says something only beside its upper half.
bool is_lower_half(const ir::Graph& graph, ir::ValueId id) {
  const ir::ValueId update = graph.at(id).op == ir::Op::state ? graph.update_of(id) : -1;
  return graph.at(update < 0 ? id : graph.at(update).operands[1]).op == ir::Op::lower_half;
}

/// The first rank that must hold the same values as `rank`: its coordinates differ only along
/// replicated axes.
int first_replica(const ir::Graph& graph, ir::ValueId id, int rank) {
  const ir::Placements& layout = graph.at(id).layout;
  for (int other = 0; other < rank; ++other) {
    bool same = true;
    for (std::size_t axis = 0; axis < layout.size(); ++axis) {
      const int a = static_cast<int>(axis);
      same = same && (layout[axis].kind == Placement::Kind::replicated ||
                      graph.mesh.coordinate(rank, a) == graph.mesh.coordinate(other, a));
    }
    if (same) return other;
  }
  return rank;
}

/// Distance of two numbers in units of `scale`; infinite when only one is a number.
double relative_error(double got, double expected, double scale) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const double error = std::fabs(got - expected) / scale;
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

double rms_of(const ir::RankData& parts) {
  double sum = 0;
  std::size_t count = 0;
  for (const ir::Data& part : parts) {
    for (const double value : part) {
      if (!std::isfinite(value)) continue;
      sum += value * value;
      ++count;
    }
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

std::string number(double value) {
  return fmt::format("{:.9g}", value);
}

/// "w[3, 17]": the element `offset` of a row that begins at `index`.
std::string element(const std::string& tensor, ir::Extents index, std::int64_t offset) {
  if (index.empty()) return tensor;
  index.back() += offset;
  return fmt::format("{}[{}]", tensor, fmt::join(index, ", "));
}

/// What all ranks have of one tensor, as rank 0 sees it.
class Gathered {
 public:
  Gathered(jit::Comm& comm, std::size_t bytes) : memory_(comm.allocate(bytes)) {}
  /// Where this rank puts what it has.
  [[nodiscard]] std::byte* own() const { return memory_->base(memory_->rank()); }
  /// Collective, after all ranks have put `bytes` of theirs: brings those of other nodes to rank 0.
  void fetch(jit::Comm& comm, std::size_t bytes) {
    const std::vector<int>& beside = comm.nodes().beside(0);
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (std::ranges::find(beside, rank) != beside.end()) continue;
      const bool mine = rank == comm.rank();
      std::string text = comm.broadcast(
          mine ? std::string_view(reinterpret_cast<const char*>(own()), bytes) : "", rank);
      if (comm.rank() == 0) far_[rank] = std::move(text);
    }
  }
  [[nodiscard]] const std::byte* of(int rank) const {
    const auto found = far_.find(rank);
    if (found == far_.end()) return memory_->base(rank);
    return reinterpret_cast<const std::byte*>(found->second.data());
  }

 private:
  std::shared_ptr<jit::PeerMemory> memory_;
  std::map<int, std::string> far_;  ///< of ranks on other nodes than rank 0's
};

/// Rank 0's side of `compare`: the reference, which computes all ranks, and what the comparisons
/// found so far.
class Checker {
 public:
  Checker(const ir::Graph& written, const ir::Graph& scheduled, const Sizes& sizes,
          const ir::Lists& lists, double tolerance)
      : written_(written), scheduled_(scheduled), sizes_(sizes), reference_(written, sizes, lists) {
    result_.tolerance = tolerance;
  }

  /// One step of the reference, on the data that `drive` gives to step `step`.
  void advance(const DriveOptions& options, int step) {
    for (ir::ValueId id = 0; id < written_.size(); ++id) {
      const ir::Op op = written_.at(id).op;
      if (op == ir::Op::input || (op == ir::Op::state && step == 0)) set(id, options, step);
    }
    reference_.run(scalars_at(written_, options, step + 1));
  }

  /// Compares `tensor`, of which every rank put its part in `gathered`.
  void check(const Tensor& tensor, const Gathered& gathered) {
    const ir::RankData& expected = reference_.get(tensor.name);
    const double rms = rms_of(expected);
    std::int64_t wrong = 0;
    double worst = -1;
    std::string sentence;
    for (int rank = 0; rank < written_.mesh.size(); ++rank) {
      compare_bytes(tensor, gathered, rank);
      if (is_lower_half(written_, tensor.written)) continue;
      compare_values(tensor, gathered.of(rank), expected.at(rank), rms, rank, wrong, worst,
                     sentence);
    }
    if (wrong == 0) return;
    fail(fmt::format("{}; {}{}{}' beyond the tolerance of {}.", sentence, wrong,
                     (wrong == 1 ? " element of '" : " elements of '"), tensor.name,
                     number(tolerance_of(tensor))));
  }

  [[nodiscard]] CheckResult result() const {
    CheckResult result = result_;
    result.passed = result.failure.empty();
    return result;
  }

 private:
  void set(ir::ValueId id, const DriveOptions& options, int step) {
    ir::RankData parts;
    for (int rank = 0; rank < written_.mesh.size(); ++rank) {
      const int iteration = options.fresh_inputs ? step : 0;
      parts.push_back(test_data(written_, id, sizes_, rank, options.seed,
                                static_cast<std::uint64_t>(iteration)));
    }
    reference_.set(written_.at(id).name, std::move(parts));
  }

  [[nodiscard]] double tolerance_of(const Tensor& tensor) const {
    return is_float(written_.at(tensor.written).dtype) ? result_.tolerance : 0;
  }

  void compare_bytes(const Tensor& tensor, const Gathered& gathered, int rank) {
    const int first = first_replica(scheduled_, tensor.scheduled, rank);
    const DType dtype = scheduled_.at(tensor.scheduled).dtype;
    const ir::Part part = ir::part_of(scheduled_, tensor.scheduled, sizes_, rank);
    const auto bytes = static_cast<std::size_t>(part.count()) * size_of(dtype);
    if (first == rank || std::memcmp(gathered.of(first), gathered.of(rank), bytes) == 0) return;
    result_.bit_identical = false;
    std::size_t i = 0;
    while (std::memcmp(gathered.of(first) + i * size_of(dtype),
                       gathered.of(rank) + i * size_of(dtype), size_of(dtype)) == 0) {
      ++i;
    }
    fail(
        fmt::format("'{}' must have the same bytes on ranks {} and {}, and its element {} is {} on "
                    "the one and {} on the other.",
                    tensor.name, first, rank, i, number(load_element(dtype, gathered.of(first), i)),
                    number(load_element(dtype, gathered.of(rank), i))));
  }

  void compare_values(const Tensor& tensor, const std::byte* got, const ir::Data& expected,
                      double rms, int rank, std::int64_t& wrong, double& worst,
                      std::string& sentence) {
    const DType dtype = scheduled_.at(tensor.scheduled).dtype;
    const ir::Extents global = ir::global_extents(scheduled_.at(tensor.scheduled).shape, sizes_);
    const ir::Part whole = reference_.part(tensor.written, rank);
    const double tolerance = tolerance_of(tensor);
    for_each_stretch(
        ir::part_of(scheduled_, tensor.scheduled, sizes_, rank), global,
        [&](const Stretch& stretch) {
          const std::int64_t from = position_in(whole, stretch.index);
          if (from < 0)
            throw InternalError("A schedule moved '" + tensor.name +
                                "' to other ranks than the program.");
          for (std::int64_t i = 0; i < stretch.length; ++i) {
            const double have =
                load_element(dtype, got, static_cast<std::size_t>(stretch.in_part + i));
            const double want = expected.at(from + i);
            const double error = relative_error(have, want, std::max(std::fabs(want), rms));
            result_.max_rel_error = std::max(result_.max_rel_error, error);
            if (error > tolerance) ++wrong;
            if (error > tolerance && error > worst) {
              worst = error;
              sentence = fmt::format("{} on rank {} is {}, expected {} (relative error {})",
                                     element(tensor.name, stretch.index, i), rank, number(have),
                                     number(want), number(error));
            }
          }
        });
  }

  /// Keeps the first finding: later ones tend to follow from it.
  void fail(std::string sentence) {
    if (result_.failure.empty()) result_.failure = std::move(sentence);
  }

  const ir::Graph& written_;
  const ir::Graph& scheduled_;
  const Sizes& sizes_;
  ir::Reference reference_;
  CheckResult result_;
};

/// Rank 0's result on every rank. Infinity has no JSON, so the error travels as text.
CheckResult shared(jit::Comm& comm, const CheckResult& mine) {
  const nlohmann::ordered_json text = {{"passed", mine.passed},
                                       {"error", number(mine.max_rel_error)},
                                       {"bit_identical", mine.bit_identical},
                                       {"failure", mine.failure}};
  const auto read = ir::json_of(comm.broadcast(ir::json_text(text), 0));
  CheckResult result = mine;
  result.passed = read.at("passed").get<bool>();
  result.max_rel_error = std::strtod(read.at("error").get<std::string>().c_str(), nullptr);
  result.bit_identical = read.at("bit_identical").get<bool>();
  result.failure = read.at("failure").get<std::string>();
  return result;
}

}  // namespace

double default_tolerance(const Program& program, int iterations) {
  // A kernel and the reference round each op to its dtype, but a kernel's f32 and f64 arithmetic
  // may contract multiply and add, order a sum otherwise, and use faster math functions, each good
  // for a few units in the last place (eps); tens of such ops in a row, and each step builds on the
  // one before: 64 eps a step. 16-bit floats are computed in f32 and rounded after each op as the
  // reference does, so that only values near a tie round to the other side: 4 eps a step, of which
  // the optimizers reach 1.6 in one step and 5 in ten. The coarsest dtype of the program counts, as
  // its rounding may reach any result.
  constexpr double eps_of_floats[] = {0x1p-52, 0x1p-23, 0x1p-10, 0x1p-7};  // f64, f32, f16, bf16
  double eps = 0;
  double factor = 64;
  for (const ir::Node& node : ir::graph_of(program)->nodes()) {
    if (node.weak) continue;
    if (is_float(node.dtype)) eps = std::max(eps, eps_of_floats[static_cast<int>(node.dtype)]);
    if (is_16_bit(node.dtype)) factor = 4;
  }
  return factor * eps * std::max(iterations, 1);
}

CheckResult compare(Executable& step, const Program& program, const World& world,
                    const Sizes& sizes, const CheckOptions& options) {
  jit::Comm& comm = jit::comm_of(world);
  const ir::Graph& written = *ir::graph_of(program);
  const Program applied = step.program();
  const ir::Graph& scheduled = *ir::graph_of(applied);
  const Sizes resolved = ir::resolve_sizes(written, sizes, options.lists);
  const std::vector<Tensor> tensors = tensors_of(written, scheduled);
  const double tolerance =
      options.tolerance.value_or(default_tolerance(program, options.drive.iterations));

  // `together` ends when the body has ended on every rank. The reference is slow: one for each of
  // its steps keeps the other ranks' waits short.
  std::unique_ptr<Checker> checker;
  jit::together(comm, [&] {
    if (world.rank() == 0)
      checker = std::make_unique<Checker>(written, scheduled, resolved, options.lists, tolerance);
  });
  for (int i = 0; i < options.drive.iterations; ++i) {
    jit::together(comm, [&] {
      if (checker) checker->advance(options.drive, i);
    });
  }

  std::size_t largest = 1;
  for (const Tensor& tensor : tensors) {
    const ir::Node& node = scheduled.at(tensor.scheduled);
    const auto count =
        ir::block_count(scheduled.mesh, node.layout, ir::global_extents(node.shape, resolved));
    largest = std::max(largest, static_cast<std::size_t>(count) * size_of(node.dtype));
  }
  Gathered gathered(comm, largest);
  for (const Tensor& tensor : tensors) {
    const DType dtype = scheduled.at(tensor.scheduled).dtype;
    jit::together(comm,
                  [&] { step.read(tensor.name, dtype, gathered.own(), step.count(tensor.name)); });
    gathered.fetch(comm, step.count(tensor.name) * size_of(dtype));
    jit::together(comm, [&] {
      if (checker) checker->check(tensor, gathered);
    });
  }

  CheckResult mine;
  mine.tolerance = tolerance;
  if (checker) mine = checker->result();
  return shared(comm, mine);
}

CheckResult run_check(const Program& program, const Schedule& schedule, const World& world,
                      const Sizes& sizes, const CheckOptions& options) {
  const ir::Graph& graph = *ir::graph_of(program);
  CheckOptions with_lists = options;
  ParameterLists& lists = with_lists.lists;
  if (lists.empty()) lists = test_lists(graph, ir::resolve_sizes(graph, sizes));
  const Sizes resolved = ir::resolve_sizes(graph, sizes, lists);
  Executable step = compile(program, schedule, world, sizes, lists);
  drive(step, world, resolved, options.drive);
  return compare(step, program, world, resolved, with_lists);
}

}  // namespace coconet::cli
