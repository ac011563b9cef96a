// What reductions and conversions make of 16-bit floats, bit by bit: computed in f32 at least, and
// rounded once, where it is stored. Against f64 of the same elements.
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "elements.h"
#include "ir/reference/reference.h"
#include "jit/conformance/conformance.h"
#include "jit/exchange/algorithm.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// How far apart two 16-bit floats are, in units of the last place.
template <class T>
int distance(T a, T b) {
  const auto place = [](T x) { return (x.bits & 0x8000) != 0 ? -(x.bits & 0x7fff) : int{x.bits}; };
  return std::abs(place(a) - place(b));
}

template <class T>
std::vector<T> narrowed(const std::vector<double>& values) {
  std::vector<T> result;
  for (const double value : values) result.push_back(T(value));
  return result;
}

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(static_cast<float>(value));
  return result;
}

/// A reduction, and what it is in f64.
struct Meaning {
  std::string name;
  Value (*whole)(const Value&);
  Value (*along)(const Value&, std::vector<int>);
  Value (*of_buffers)(const Value&);  ///< null where there is none
  double (*of)(const std::vector<double>&);
  /// Element `i` of `n`: together in range, but neither their sum nor their squares in f16.
  double (*element)(std::size_t i, std::size_t n);
};

double total_of(const std::vector<double>& all) {
  double total = 0;
  for (const double one : all) total += one;
  return total;
}

/// From 0.5 to 1, without an order.
double mixed(std::size_t i) {
  return 0.5 + static_cast<double>(i * 2654435761U % 1000) / 2000;
}

const Meaning meanings[] = {
    {"sum", [](const Value& x) { return sum(x); },
     [](const Value& x, std::vector<int> dims) { return sum(x, std::move(dims)); },
     [](const Value& x) { return sum(x, per_buffer); }, total_of,
     [](std::size_t i, std::size_t n) {
       return (i < n / 2 ? 1.0 : -0.8) * std::min(40000.0, 600000.0 / static_cast<double>(n)) *
              mixed(i);
     }},
    {"mean", [](const Value& x) { return mean(x); },
     [](const Value& x, std::vector<int> dims) { return mean(x, std::move(dims)); }, nullptr,
     [](const std::vector<double>& all) { return total_of(all) / static_cast<double>(all.size()); },
     [](std::size_t i, std::size_t) { return 60000 * mixed(i); }},
    {"norm", [](const Value& x) { return norm(x); },
     [](const Value& x, std::vector<int> dims) { return norm(x, std::move(dims)); },
     [](const Value& x) { return norm(x, per_buffer); },
     [](const std::vector<double>& all) {
       double squares = 0;
       for (const double one : all) squares += one * one;
       return std::sqrt(squares);
     },
     [](std::size_t i, std::size_t n) {
       return (i % 2 == 0 ? 60000 : -60000) / std::sqrt(static_cast<double>(n)) * mixed(i);
     }},
    {"prod", [](const Value& x) { return prod(x); },
     [](const Value& x, std::vector<int> dims) { return prod(x, std::move(dims)); },
     [](const Value& x) { return prod(x, per_buffer); },
     [](const std::vector<double>& all) {
       double product = 1;
       for (const double one : all) product *= one;
       return product;
     },
     [](std::size_t i, std::size_t n) {
       const std::size_t half = std::min<std::size_t>(n, 60) / 2;  // f32 holds no longer ones
       return i < half ? 2 + mixed(i) : i < 2 * half ? 1 / (2 + mixed(i - half)) : 1;
     }},
};

template <class T>
std::vector<T> elements_like(const Meaning& meaning, std::size_t n) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(meaning.element(i, n));
  return narrowed<T>(values);
}

template <class T>
void require_near(Executable& step, const std::string& name, const std::vector<double>& expected) {
  const std::vector<T> got = elements_of<T>(step, name);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (distance(got[i], T(expected[i])) <= 1) continue;
    throw std::runtime_error(name + " of " + std::string(to_string(dtype_of<T>)) + " is " +
                             std::to_string(static_cast<float>(got[i])) + " at " +
                             std::to_string(i) + " and should be " + std::to_string(expected[i]));
  }
}

/// What `meaning` makes of the rows (dim 1) or columns (dim 0) of a matrix of `columns`.
std::vector<double> along(const Meaning& meaning, const std::vector<double>& x, std::size_t columns,
                          int dim) {
  const std::size_t rows = x.size() / columns;
  std::vector<double> results;
  for (std::size_t r = 0; r < (dim == 1 ? rows : columns); ++r) {
    std::vector<double> some;
    for (std::size_t i = 0; i < (dim == 1 ? columns : rows); ++i)
      some.push_back(x[dim == 1 ? r * columns + i : i * columns + r]);
    results.push_back(meaning.of(some));
  }
  return results;
}

/// Every reduction of the whole of a matrix and along each of its dimensions, where each rank has
/// it all (`sliced_dim` is -1) or a slice.
template <class T>
void require_reductions(int ranks, int sliced_dim) {
  Program program("narrow", Mesh({{"world", ranks}}));
  const Dim A = program.dim("A"), B = program.dim("B");
  const auto whole = [](const Value& value) {
    return value.layout().front() == replicated ? value : all_gather(value);
  };
  for (const Meaning& meaning : meanings) {
    const Value given = program.input("x_" + meaning.name, dtype_of<T>, {A, B}, replicated);
    const Value x = sliced_dim < 0 ? given : slice(given, sliced_dim);
    program.output(meaning.name, meaning.whole(x));
    for (const int dim : {0, 1})
      program.output(meaning.name + std::to_string(dim), whole(meaning.along(x, {dim})));
  }
  World::local(ranks, [&](World& world) {
    Executable step = compile(program, Schedule("none"), world, {{"A", 6}, {"B", 10}});
    for (const auto& [rows, columns] : {std::pair{6, 10}, std::pair{3, 1700}}) {
      step.resize({{"A", rows}, {"B", columns}});
      const auto n = static_cast<std::size_t>(rows * columns);
      for (const Meaning& meaning : meanings)
        step.write("x_" + meaning.name, elements_like<T>(meaning, n));
      step.run();
      for (const Meaning& meaning : meanings) {
        const std::vector<double> x = widened(elements_like<T>(meaning, n));
        require_near<T>(step, meaning.name, {meaning.of(x)});
        for (const int dim : {0, 1}) {
          require_near<T>(step, meaning.name + std::to_string(dim),
                          along(meaning, x, static_cast<std::size_t>(columns), dim));
        }
      }
    }
  });
}

/// The names of the reductions of `program`.
std::vector<std::string> reductions_of(const Program& program) {
  std::vector<std::string> names;
  for (const ir::Node& node : ir::graph_of(program)->nodes()) {
    if (node.op == ir::Op::reduction) names.push_back(node.name);
  }
  return names;
}

/// Reductions of an average over ranks, after the kernel that averages and fused into it: over a
/// whole tensor and, where it is scattered, over each buffer.
template <class T>
void require_reductions_of_average(const Meaning& meaning, int ranks, bool scattered) {
  Program program("fused", Mesh({{"world", ranks}}));
  const Dim n = program.dim("n");
  const DType dtype = dtype_of<T>;
  const Value g = scattered ? program.scattered_input("g", dtype, n, local)
                            : program.input("g", dtype, {n}, local);
  const Value w = scattered ? program.scattered_state("w", dtype, n, replicated)
                            : program.state("w", dtype, {n}, replicated);
  const Value average = all_reduce(g, Reduction::mean).named("average");
  const Value made = meaning.whole(average).named("made");
  program.output("made", made);
  const bool of_buffers = scattered && meaning.of_buffers != nullptr;
  if (of_buffers) program.output("each", meaning.of_buffers(average).named("each"));
  update(w, w + average * made);
  std::vector<std::string> names = reductions_of(program);
  names.push_back("w.new");
  Schedule slices("slices");
  slices.split("average").reorder("average.all_gather", names).dead();
  names.insert(names.end(), {"average.reduce_scatter", "w.all_gather"});
  Schedule fused = slices;
  fused.fuse("all", "all_reduce", names);

  const std::vector<std::int64_t> lengths = {7, 1, 1500, 93};
  const std::vector<T> x = elements_like<T>(meaning, 1601);
  const std::vector<double> wide = widened(x);
  std::vector<double> each;
  auto begin = wide.begin();
  for (const std::int64_t length : lengths) {
    each.push_back(meaning.of({begin, begin + length}));
    begin += length;
  }
  World::local(ranks, [&](World& world) {
    for (const Schedule& schedule : {slices, fused}) {
      Executable step = scattered ? compile(program, schedule, world, {}, {{"n", lengths}})
                                  : compile(program, schedule, world, {{"n", 1601}});
      step.write("g", x);
      step.run();
      require_near<T>(step, "made", {meaning.of(wide)});
      if (of_buffers) require_near<T>(step, "each", each);
    }
  });
}

/// `op` of `x`, in one kernel on one rank.
template <class T>
T made_of(const std::vector<T>& x, Value (*op)(const Value&)) {
  Program program("single", Mesh({{"world", 1}}));
  const Value in = program.input("x", dtype_of<T>, {program.dim("n")}, replicated);
  program.output("y", op(in));
  Executable step = compile(program, Schedule("none"), World::self(),
                            {{"n", static_cast<std::int64_t>(x.size())}});
  step.write("x", x);
  step.run();
  return elements_of<T>(step, "y").front();
}

/// What a value of each wider type, a scalar and a constant become as T in several places, which is
/// what a midpoint between two T is not rounded to on the way: `above`, the upper one.
template <class T>
void require_converts_once() {
  const DType dtype = dtype_of<T>;
  const int digits = dtype == f16 ? 11 : 8;
  // Just above the midpoint between 1 and the next T, by less than f32 holds; and integers.
  const double number = 1 + std::ldexp(1, -digits) + 0x1p-40;
  const T above(1 + std::ldexp(2, -digits));
  const std::int32_t narrower = dtype == f16 ? 2049 : (1 << 24) + (1 << 16) + 1;
  const std::int64_t wider =
      dtype == f16 ? 2049 : (std::int64_t{1} << 60) + (std::int64_t{1} << 52) + 1;
  const double nearest_narrower = dtype == f16 ? 2048 : (1 << 24) + (1 << 17);
  const double nearest_wider = dtype == f16 ? 2048 : 0x1p60 + 0x1p53;
  constexpr std::size_t length = 37;  // vectors, and what is left of them

  Program program("once", Mesh({{"world", 1}}));
  const Dim n = program.dim("n");
  const Value c = program.scalar("c");
  const Value flag = program.input("flag", boolean, {n}, replicated);
  const Value x = program.input("x", dtype, {n}, replicated);
  const Value w = program.state("w", dtype, {n}, replicated);
  // Beside the condition, which makes them one kernel.
  const auto output = [&](const std::string& name, const Value& value) {
    program.output(name, select(flag, value, 0).named("made_" + name));
  };
  output("of_f64", cast(program.input("f64", f64, {n}, replicated), dtype));
  output("of_i32", cast(program.input("i32", i32, {n}, replicated), dtype));
  output("of_i64", cast(program.input("i64", i64, {n}, replicated), dtype));
  output("chosen", select(flag, c, number, dtype));
  output("constant", select(flag, number, c, dtype));
  output("least", minimum(x, c));
  output("greatest", maximum(number, -x));
  update(w, c + 0 * c);
  const std::map<std::string, double> expected = {
      {"of_f64", number},        {"of_i32", nearest_narrower},
      {"of_i64", nearest_wider}, {"chosen", number},
      {"constant", number},      {"least", number},
      {"greatest", number},      {"w", number}};

  const World world = World::self();
  std::vector<std::string> names;
  for (const auto& [name, value] : expected) {
    if (name != "w") names.push_back("made_" + name);
  }
  for (const Schedule& schedule : {Schedule("none"), one_kernel("all", names)}) {
    Executable step = compile(program, schedule, world, {{"n", length}});
    step.write("flag", std::vector<std::uint8_t>(length, 1));
    step.write("x", std::vector<T>(length, T(2)));
    step.write("f64", std::vector<double>(length, number));
    step.write("i32", std::vector<std::int32_t>(length, narrower));
    step.write("i64", std::vector<std::int64_t>(length, wider));
    step.run({{"c", number}});
    for (const auto& [name, value] : expected) {
      INFO(name << " of " << to_string(dtype) << " under " << schedule.name());
      for (const T one : elements_of<T>(step, name)) REQUIRE(one.bits == T(value).bits);
    }
  }
  CHECK(T(number).bits == above.bits);
  ir::Reference reference(*ir::graph_of(program), {{"n", 1}});
  reference.set("flag", {{1}});
  reference.set("x", {{2}});
  reference.set("f64", {{number}});
  reference.set("i32", {{static_cast<double>(narrower)}});
  reference.set("i64", {{0x1p60 + 0x1p52 + 0x1p8}});  // which a double holds
  reference.run({{"c", number}});
  for (const auto& [name, value] : expected) {
    if (name != "of_i64" || dtype == bf16)
      CHECK(T(reference.get(name)[0][0]).bits == T(value).bits);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("what is converted to 16 bits is rounded once, in kernels and the reference", "",
                   Half, BFloat16) {
  require_converts_once<TestType>();
}

TEMPLATE_TEST_CASE("what an application's op makes of f64 is rounded once to 16 bits", "", Half,
                   BFloat16) {
  static const PointwiseOp total =
      define_pointwise({.name = "total_in_f64",
                        .arity = 3,
                        .rule = DTypeRule::floating,
                        .cost = 2,
                        .device = "f64(a) + f64(b) + f64(c)",
                        .reference = [](double a, double b, double c) { return a + b + c; }});
  // One, half of the way to the next, and what f32 has no room for beside them.
  constexpr double half = dtype_of<TestType> == f16 ? 0x1p-11 : 0x1p-8;
  const auto made = made_of<TestType>(
      {TestType(1)}, [](const Value& x) { return total(x, x * half, x * 0x1p-24); });
  CHECK(made.bits == TestType(1 + 2 * half).bits);
}

TEST_CASE("a mean and a norm of f16 are what f16 holds, whatever their sums are") {
  const auto mean_of = [](const std::vector<Half>& x) {
    return made_of<Half>(x, [](const Value& value) { return mean(value); });
  };
  const auto norm_of = [](const std::vector<Half>& x) {
    return made_of<Half>(x, [](const Value& value) { return norm(value); });
  };
  CHECK(mean_of(std::vector<Half>(100'000, Half(1))).bits == Half(1).bits);
  CHECK(mean_of({Half(40000), Half(30000)}).bits == Half(35000).bits);
  CHECK(norm_of(std::vector<Half>(4, Half(300))).bits == Half(600).bits);
  const Half tiny(1e-4);
  CHECK(norm_of(std::vector<Half>(4, tiny)).bits == Half(2 * static_cast<float>(tiny)).bits);
}

TEST_CASE("a norm of bf16 leaves it where the square of a number leaves f32") {
  const auto norm_of = [](double number) {
    return static_cast<float>(made_of<BFloat16>({BFloat16(number), BFloat16(0)},
                                                [](const Value& value) { return norm(value); }));
  };
  CHECK(norm_of(1.8e19) == static_cast<float>(BFloat16(1.8e19)));
  CHECK(std::isinf(norm_of(1.9e19)));
}

TEST_CASE("a mean of f16 inside a kernel is what f16 holds, with every algorithm") {
  constexpr int ranks = 3;
  Program program("means", Mesh({{"world", ranks}}));
  const Value g = program.state("g", f16, {program.dim("n")}, local);
  program.output("mean", all_reduce(g, mean).named("average"));
  for (const jit::Algorithm* algorithm : jit::algorithms()) {
    Knobs knobs;
    knobs.algorithm = algorithm->name;
    if (!runs_here(knobs, ranks)) continue;
    INFO(algorithm->name);
    const Schedule schedule = Schedule("fused").fuse("means", "all_reduce", {"average"}, knobs);
    REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
      Executable step = compile(program, schedule, world, {{"n", 1003}});
      step.write("g", std::vector<Half>(1003, Half(60000)));
      step.run();
      require_near<Half>(step, "mean", std::vector<double>(1003, 60000));
    }));
  }
}

TEMPLATE_TEST_CASE("reductions of 16-bit floats are a unit in the last place from f64 at most", "",
                   Half, BFloat16) {
  for (const auto& [ranks, sliced_dim] : {std::pair{1, -1}, std::pair{2, 0}, std::pair{3, 1}}) {
    if (draw()) REQUIRE_NOTHROW(require_reductions<TestType>(ranks, sliced_dim));
  }
}

TEMPLATE_TEST_CASE("they are so of slices, and inside a kernel of all ranks", "", Half, BFloat16) {
  bool scattered = dtype_of<TestType> == f16;
  for (const Meaning& meaning : meanings) {
    INFO(meaning.name << (scattered ? " of scattered tensors" : " of whole tensors"));
    if (draw()) REQUIRE_NOTHROW(require_reductions_of_average<TestType>(meaning, 3, scattered));
    scattered = !scattered;
  }
}
