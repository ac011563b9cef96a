// Looks for cliffs: times small programs, one of each kind that the library generates a kernel for,
// beside a copy of as many bytes, and prints them worst first. What is far from the copy either
// calculates much or is slow for no reason.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "copy.h"
#include "rows.h"
#include "timing.h"

namespace {

using coconet::Dim;
using coconet::DType;
using coconet::Program;
using coconet::Value;

/// What a rank reads and writes, about: more than the caches of one core, or what its own hold.
constexpr std::int64_t past_caches = std::int64_t{32} << 20, in_caches = std::int64_t{1} << 19;
std::int64_t bytes_wanted = past_caches;
constexpr std::int64_t columns = 1024;
/// A row below that share of the copy's speed is to have a reason.
constexpr double least_of_copy = 0.5;
/// Ops that cost as much as so many additions calculate for longer than a copy takes.
constexpr int costly = 5;

/// A program, and the inputs that it has.
struct Draft {
  Program program;
  std::vector<std::pair<std::string, DType>> inputs = {};

  Value input(const std::string& name, DType dtype, coconet::Shape shape, coconet::Layout layout) {
    inputs.emplace_back(name, dtype);
    return program.input(name, dtype, std::move(shape), std::move(layout));
  }
};

struct Case {
  std::string kind, name, op, dtype, layout;
  std::function<Value(Draft&)> build;  ///< the value that the program computes
  coconet::Schedule schedule = coconet::Schedule();
  int cost = 1;  ///< of an element, as pointwise.def has it
};

struct Measured {
  Case of;
  double ms = 0, copy_ms = 0;
  std::int64_t bytes = 0;
  std::int64_t elements = 0;  ///< of the largest tensor
  /// An element takes as long where no memory is waited for.
  bool as_long_in_caches = false;
  [[nodiscard]] double of_copy() const { return copy_ms / ms; }
  /// What makes it slower than the copy by its nature: what it calculates, or that elements go
  /// through mailboxes on their way, widened and with flags; empty where nothing does.
  [[nodiscard]] std::string bound_by() const {
    if (of.cost >= costly) return "arithmetic";
    if (as_long_in_caches) return "processor (as long in the caches)";
    return of.kind == "exchange" && of.name != "direct simple" ? "mailboxes" : "";
  }
  /// What an element costs on one core.
  [[nodiscard]] double nanoseconds() const { return ms * 1e6 / static_cast<double>(elements); }
};

struct Op {
  std::string name;
  int arity;
  std::string rule;
  int cost;
};
const std::vector<Op> ops = {
#define COCONET_POINTWISE(name, arity, rule, cost, device, reference, gradients) \
  {#name, arity, #rule, cost},
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
};

std::vector<DType> dtypes_of(const std::string& rule, bool quick) {
  if (rule == "logical") return {DType::boolean};
  std::vector<DType> all = {DType::f64, DType::f32, DType::f16, DType::bf16};
  if (rule != "floating")
    all.insert(all.end(), {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8});
  if (quick)
    std::erase_if(all,
                  [](DType d) { return d != DType::f32 && d != DType::bf16 && d != DType::u8; });
  return all;
}

/// [rows, columns] of about the bytes that are wanted, of which a rank has its rows.
std::int64_t rows_of(const coconet::World& world, DType dtype, int tensors,
                     std::int64_t of_columns) {
  const auto row = static_cast<std::int64_t>(coconet::size_of(dtype)) * tensors * of_columns;
  return std::max<std::int64_t>(1, bytes_wanted / row) * world.size();
}

/// The operands of a pointwise op: how the second one lies beside the others.
void add_pointwise(const coconet::World& world, bool quick, std::vector<Case>& cases) {
  for (const Op& op : ops) {
    std::vector<std::string> layouts = {"linear"};
    if (op.arity > 1)
      layouts.insert(layouts.end(), {"row", "column", "sliced", "middle", "unaligned"});
    if (quick) layouts.resize(std::min<std::size_t>(layouts.size(), 2));
    for (const DType dtype : dtypes_of(op.rule, quick)) {
      for (const std::string& layout : layouts) {
        const auto build = [&world, op, dtype, layout](Draft& draft) {
          const std::int64_t width = layout == "unaligned" ? columns - 1 : columns;
          const std::int64_t rows = rows_of(world, dtype, op.arity + 1, width);
          // "sliced" and "middle" divide the last dimension, and one before short rows.
          const bool is_middle = layout == "middle", is_sliced = is_middle || layout == "sliced";
          coconet::Shape whole = {Dim(rows), Dim(width)};
          if (is_middle) whole = {Dim(rows), Dim(width / 8), Dim(8)};
          const int dim = is_sliced ? 1 : 0;
          const auto operand = [&](const char* name, DType type, bool other) {
            if (!other || layout == "linear")
              return draft.input(name, type, whole, coconet::sliced(dim));
            if (is_sliced) return draft.input(name, type, whole, coconet::replicated);
            if (layout == "column")
              return draft.input(name, type, {Dim(rows), Dim(1)}, coconet::sliced(0));
            return draft.input(name, type, {Dim(width)}, coconet::replicated);
          };
          const Value a = operand("a", op.rule == "choose" ? DType::boolean : dtype, false);
          if (op.arity == 1) return coconet::detail::pointwise(op.name, {a});
          const Value b = operand("b", dtype, true);
          if (op.arity == 2) return coconet::detail::pointwise(op.name, {a, b});
          return coconet::detail::pointwise(op.name, {a, b, operand("c", dtype, false)});
        };
        cases.push_back({"pointwise", op.name, op.name, std::string(coconet::to_string(dtype)),
                         layout, build, coconet::Schedule(), op.cost});
      }
    }
  }
}

/// Reductions of as many elements, in all directions.
void add_reductions(bool quick, std::vector<Case>& cases) {
  struct Pattern {
    const char* name;
    std::vector<std::int64_t> shape;  ///< of which one extent is -1: what is left
    std::vector<int> dims;
  };
  const std::vector<Pattern> patterns = {
      {"all", {-1, columns}, {0, 1}},
      {"rows", {-1, columns}, {1}},
      {"columns", {-1, columns}, {0}},
      {"long columns", {-1, 5}, {0}},
      {"short columns", {5, -1}, {0}},
      {"short rows", {-1, 5}, {1}},
      {"long rows", {5, -1}, {1}},
      {"middle", {16, -1, columns}, {1}},
      {"outer and inner", {16, -1, columns}, {0, 2}},
  };
  for (const Pattern& pattern : patterns) {
    for (const DType dtype : dtypes_of("numeric", quick)) {
      for (const char* const op : {"sum", "max"}) {
        const auto build = [pattern, dtype, op = std::string(op)](Draft& draft) {
          std::int64_t rest = bytes_wanted / static_cast<std::int64_t>(coconet::size_of(dtype));
          for (const std::int64_t extent : pattern.shape) rest = extent > 0 ? rest / extent : rest;
          coconet::Shape shape;
          for (const std::int64_t extent : pattern.shape)
            shape.push_back(Dim(extent > 0 ? extent : rest));
          const Value x = draft.input("a", dtype, shape, coconet::replicated);
          return op == "sum" ? coconet::sum(x, pattern.dims) : coconet::max(x, pattern.dims);
        };
        cases.push_back(
            {"reduction", op, op, std::string(coconet::to_string(dtype)), pattern.name, build});
      }
    }
  }
}

/// Sums of all ranks inside a kernel.
void add_exchanges(const coconet::World& world, bool quick, std::vector<Case>& cases) {
  if (world.size() == 1) return;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const char* const algorithm : {"direct", "ring", "tree"}) {
      for (const char* const protocol : {"simple", "ll", "ll128"}) {
        if (quick && std::string_view(protocol) != "simple") continue;
        const coconet::Knobs knobs{.algorithm = algorithm, .protocol = protocol};
        const auto build = [dtype](Draft& draft) {
          const std::int64_t n =
              bytes_wanted / 2 / static_cast<std::int64_t>(coconet::size_of(dtype));
          return coconet::all_reduce(draft.input("a", dtype, {Dim(n)}, coconet::local),
                                     coconet::sum)
              .named("total");
        };
        cases.push_back({"exchange", std::string(algorithm) + " " + protocol, "all_reduce",
                         std::string(coconet::to_string(dtype)), "linear", build,
                         coconet::Schedule("sum").fuse("sum", "all_reduce", {"total"}, knobs)});
      }
    }
  }
}

/// Ones, and for conditions ones and zeros in no order.
void fill(coconet::Executable& step, const std::string& name, DType dtype) {
  const std::size_t count = step.count(name);
  void* const data = step.data(name, dtype).data;
  const auto with = [&]<class T>(T one) { std::fill_n(static_cast<T*>(data), count, one); };
  switch (dtype) {
    case DType::f64:
      return with(1.0);
    case DType::f32:
      return with(1.0f);
    case DType::f16:
      return with(std::uint16_t{0x3c00});
    case DType::bf16:
      return with(std::uint16_t{0x3f80});
    case DType::i64:
      return with(std::int64_t{1});
    case DType::i32:
      return with(std::int32_t{1});
    case DType::i16:
      return with(std::int16_t{1});
    case DType::i8:
    case DType::u8:
      return with(std::uint8_t{1});
    case DType::boolean:
      for (std::size_t i = 0; i < count; ++i)
        static_cast<std::uint8_t*>(data)[i] = (i * 2654435761u >> 13 & 1u) != 0;
  }
}

Measured time_case(const coconet::World& world, const Case& of) {
  Draft draft{Program("sweep", coconet::Mesh::over(world))};
  const Value result = of.build(draft);
  const DType out = result.dtype();
  draft.program.output("y", result);
  coconet::Executable step = coconet::compile(draft.program, of.schedule, world);
  std::size_t bytes = 0, elements = 0;
  const auto add = [&](const std::string& name, DType dtype) {
    bytes += step.count(name) * coconet::size_of(dtype);
    elements = std::max(elements, step.count(name));
  };
  step.data("y", out);
  add("y", out);
  for (const auto& [name, dtype] : draft.inputs) {
    fill(step, name, dtype);
    add(name, dtype);
  }
  const bench::Copy copy(bytes);
  std::vector<bench::Contestant> contestants;
  contestants.push_back({.name = "kernel", .step = [&](int) { step.run(); }});
  contestants.push_back({.name = "copy", .step = [&](int) { copy.step(); }});
  bench::measure(contestants);
  return {.of = of,
          .ms = contestants[0].ms,
          .copy_ms = contestants[1].ms,
          .bytes = static_cast<std::int64_t>(bytes),
          .elements = static_cast<std::int64_t>(elements)};
}

/// Whether an element of a row takes nearly as long where its tensors are in the caches: then its
/// time is the processor's, not the memory's.
bool is_as_long_in_caches(const coconet::World& world, const Measured& row) {
  constexpr double nearly = 0.8;
  bytes_wanted = in_caches;
  int yes = time_case(world, row.of).nanoseconds() >= nearly * row.nanoseconds() ? 1 : 0;
  bytes_wanted = past_caches;
  MPI_Bcast(&yes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return yes == 1;
}

void print(const std::vector<Measured>& rows) {
  std::printf("%-10s %-14s %-8s %-16s %10s %10s %8s %10s  %s\n", "kind", "op", "dtype", "layout",
              "ms", "copy_ms", "of copy", "ns/element", "bound by");
  for (const Measured& row : rows) {
    std::printf("%-10s %-14s %-8s %-16s %10.4f %10.4f %8.2f %10.3f  %s\n", row.of.kind.c_str(),
                row.of.name.c_str(), row.of.dtype.c_str(), row.of.layout.c_str(), row.ms,
                row.copy_ms, row.of_copy(), row.nanoseconds(), row.bound_by().c_str());
  }
}

void write(const std::vector<Measured>& rows, int ranks, const std::string& file) {
  nlohmann::json all = nlohmann::json::array();
  for (const Measured& row : rows) {
    all.push_back({{"kind", row.of.kind},
                   {"op", row.of.name},
                   {"dtype", row.of.dtype},
                   {"layout", row.of.layout},
                   {"ms", row.ms},
                   {"copy_ms", row.copy_ms},
                   {"of_copy", row.of_copy()},
                   {"bytes", row.bytes},
                   {"ns_per_element", row.nanoseconds()},
                   {"bound_by", row.bound_by()}});
  }
  const char* const compiler = std::getenv("COCONET_CXX");
  std::ofstream out(file);
  out << nlohmann::json{{"bench", "sweep"},
                        {"ranks", ranks},
                        {"compiler", compiler == nullptr ? "" : compiler},
                        {"rows", all}}
             .dump(2)
      << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  std::vector<Case> cases;
  add_pointwise(world, options.quick, cases);
  add_reductions(options.quick, cases);
  add_exchanges(world, options.quick, cases);
  // What to look at alone while a cliff is taken away.
  if (const char* const only = std::getenv("SWEEP_ONLY")) {
    std::erase_if(cases, [&](const Case& c) {
      return (c.kind + " " + c.name + " " + c.dtype + " " + c.layout).find(only) ==
             std::string::npos;
    });
  }
  std::vector<Measured> rows;
  for (const Case& c : cases) {
    Measured row = time_case(world, c);
    int is_slow = row.of_copy() < least_of_copy && row.bound_by().empty() ? 1 : 0;
    MPI_Bcast(&is_slow, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (is_slow == 1) row.as_long_in_caches = is_as_long_in_caches(world, row);
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, {}, &Measured::of_copy);
  if (world.rank() != 0) return;
  print(rows);
  if (!options.json.empty()) write(rows, world.size(), options.json);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
