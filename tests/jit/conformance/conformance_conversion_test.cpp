// What integers hold of floats that they cannot hold, and of results that leave their range: the
// reference and kernels, in whole vectors and in what is left over, against an expectation of this
// file's own.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "elements.h"
#include "ir/reference/reference.h"
#include "jit/conformance/conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

__extension__ using Wide = __int128;  // holds every result of two i64

struct Range {
  Wide least, greatest;
};

Range range_of(DType dtype) {
  const int bits = 8 * static_cast<int>(size_of(dtype));
  if (dtype == u8) return {0, 255};
  return {-(Wide{1} << (bits - 1)), (Wide{1} << (bits - 1)) - 1};
}

Wide converted(double value, DType dtype) {
  if (dtype == boolean) return value != 0 ? 1 : 0;  // true of NaN
  if (std::isnan(value)) return 0;
  const auto [least, greatest] = range_of(dtype);
  const double whole = std::trunc(value);
  if (whole <= static_cast<double>(least)) return least;
  if (whole >= static_cast<double>(greatest)) return greatest;
  return static_cast<Wide>(whole);
}

/// `value` brought into the range of `dtype` by multiples of 2^bits.
Wide wrapped(Wide value, DType dtype) {
  const auto [least, greatest] = range_of(dtype);
  const Wide period = greatest - least + 1;
  const Wide above = (value - least) % period;
  return least + (above < 0 ? above + period : above);
}

/// Calls `body.operator()<T>()` for the C++ type of a `dtype` that is no float.
template <class Body>
void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::i64:
      return body.template operator()<std::int64_t>();
    case DType::i32:
      return body.template operator()<std::int32_t>();
    case DType::i16:
      return body.template operator()<std::int16_t>();
    case DType::i8:
      return body.template operator()<std::int8_t>();
    default:
      return body.template operator()<std::uint8_t>();  // bool, too
  }
}

std::vector<Wide> elements(Executable& step, const std::string& name, DType dtype) {
  std::vector<Wide> read;
  with_type(dtype, [&]<class T>() {
    const std::vector<T> got = elements_of<T>(step, name);
    read.assign(got.begin(), got.end());
  });
  return read;
}

/// Around every limit of every integer, and what is special.
std::vector<double> hostile_numbers() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> numbers = {nan,       -nan,       infinity, -infinity, 0.0,     -0.0,
                                 0x1p-1074, -0x1p-1074, 0x1p-149, -0x1p-149, 0x1p-24, -0x1p-24,
                                 0x1p-1022, 0x1p-126,   1e300,    -1e300,    0x1p127, -0x1p127,
                                 65504,     -65504,     1e10,     -1e10,     0x1p62,  -0x1p62};
  for (const double limit :
       {0.0, 1.0, 0x1p7, 0x1p8, 0x1p15, 0x1p16, 0x1p24, 0x1p31, 0x1p32, 0x1p53, 0x1p63, 0x1p64}) {
    for (const double sign : {1.0, -1.0}) {
      const double at = sign * limit;
      const auto narrow = static_cast<float>(at);
      const std::initializer_list<double> near = {at,
                                                  at - 0.5,
                                                  at + 0.5,
                                                  at - 1,
                                                  at + 1,
                                                  at - 1.5,
                                                  at + 1.5,
                                                  std::nextafter(at, infinity),
                                                  std::nextafter(at, -infinity),
                                                  std::nextafter(narrow, HUGE_VALF),
                                                  std::nextafter(narrow, -HUGE_VALF),
                                                  std::nextafter(at - 1, infinity),
                                                  std::nextafter(at - 1, -infinity)};
      numbers.insert(numbers.end(), near);
    }
  }
  return numbers;
}

/// Every value of a type of 16 bits, and the hostile numbers of others.
template <class T>
std::vector<T> values_of() {
  std::vector<T> values;
  if constexpr (sizeof(T) == 2) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
      values.push_back(std::bit_cast<T>(static_cast<std::uint16_t>(bits)));
  } else {
    for (const double number : hostile_numbers()) values.push_back(static_cast<T>(number));
  }
  return values;
}

template <class T>
double as_double(T value) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

std::vector<DType> targets() {
  std::vector<DType> dtypes;
  std::ranges::copy_if(all_dtypes, std::back_inserter(dtypes),
                       [](DType dtype) { return !is_float(dtype); });
  return dtypes;
}

std::string to_name(DType dtype) {
  return "to_" + std::string(to_string(dtype));
}

Program casts_of(DType from) {
  Program program("conversions", Mesh({{"world", 1}}));
  const Value x = program.input("x", from, {program.dim("n")}, replicated);
  for (const DType to : targets()) program.output(to_name(to), cast(x, to).named(to_name(to)));
  return program;
}

/// `n` of `values` from `first` on, around their end.
template <class T>
std::vector<T> window(const std::vector<T>& values, std::size_t first, std::size_t n) {
  std::vector<T> taken;
  for (std::size_t i = 0; i < n; ++i) taken.push_back(values[(first + i) % values.size()]);
  return taken;
}

template <class T>
void require_converts(Executable& step, const std::vector<T>& x) {
  step.resize({{"n", static_cast<std::int64_t>(x.size())}});
  step.write("x", x);
  step.run();
  for (const DType to : targets()) {
    const std::vector<Wide> got = elements(step, to_name(to), to);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (got[i] == converted(as_double(x[i]), to)) continue;
      FAIL("element " << i << " of " << x.size() << ", " << as_double(x[i]) << ", became "
                      << static_cast<std::int64_t>(got[i]) << " of " << to_string(to));
    }
  }
}

/// Operands near the ends of `dtype`, each with each.
template <class T>
void integer_operands(std::vector<T>& a, std::vector<T>& b) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> ends = {Limits::min(),
                               static_cast<T>(Limits::min() + 1),
                               static_cast<T>(Limits::min() / 2),
                               static_cast<T>(Limits::min() / 3),
                               static_cast<T>(-1),
                               0,
                               1,
                               2,
                               7,
                               static_cast<T>(Limits::max() / 3),
                               static_cast<T>(Limits::max() / 2),
                               static_cast<T>(Limits::max() - 1),
                               Limits::max()};
  for (const T first : ends) {
    for (const T second : ends) {
      a.push_back(first);
      b.push_back(second);
    }
  }
}

struct IntegerOp {
  const char* name;
  Value (*make)(const Value& a, const Value& b);
  Wide (*meaning)(Wide a, Wide b);
};

constexpr IntegerOp integer_ops[] = {
    {"sum", [](const Value& a, const Value& b) { return a + b; },
     [](Wide a, Wide b) { return a + b; }},
    {"difference", [](const Value& a, const Value& b) { return a - b; },
     [](Wide a, Wide b) { return a - b; }},
    {"product", [](const Value& a, const Value& b) { return a * b; },
     [](Wide a, Wide b) { return a * b; }},
    {"negated", [](const Value& a, const Value&) { return -a; }, [](Wide a, Wide) { return -a; }},
    {"magnitude", [](const Value& a, const Value&) { return abs(a); },
     [](Wide a, Wide) { return a < 0 ? -a : a; }},
    {"squared", [](const Value& a, const Value&) { return square(a); },
     [](Wide a, Wide) { return a * a; }},
    // Of what wrapped around, where a compiler that takes overflow for impossible is seen.
    {"compared", [](const Value& a, const Value& b) { return select(a + b < a, a, b); }, nullptr},
};

}  // namespace

TEMPLATE_TEST_CASE("the reference's integers hold of a float what is nearest to it, and 0 of NaN",
                   "", double, float, Half, BFloat16) {
  const std::vector<TestType> values = values_of<TestType>();
  const Program program = casts_of(dtype_of<TestType>);
  ir::Reference reference(*ir::graph_of(program),
                          {{"n", static_cast<std::int64_t>(values.size())}});
  ir::Data x;
  for (const TestType value : values) x.push_back(as_double(value));
  reference.set("x", ir::RankData{x});
  reference.run({});
  for (const DType to : targets()) {
    const ir::Data& got = reference.get(to_name(to))[0];
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (got[i] != static_cast<double>(converted(x[i], to)))
        FAIL(x[i] << " became " << got[i] << " of " << to_string(to));
    }
  }
  SUCCEED();
}

TEMPLATE_TEST_CASE("kernels' integers hold of a float what is nearest to it, and 0 of NaN", "",
                   double, float, Half, BFloat16) {
  const std::vector<TestType> values = values_of<TestType>();
  const World world = World::self();
  const Program program = casts_of(dtype_of<TestType>);
  std::vector<std::string> names;
  for (const DType to : targets()) names.push_back(to_name(to));
  // A kernel for each dtype, and one whose lanes are as wide as its widest.
  for (const Schedule& schedule : {Schedule("none"), one_kernel("all", names)}) {
    Executable step = compile(program, schedule, world, {{"n", 1}});
    require_converts(step, values);
    // Vectors and what is left over of them, with every value in many of the lanes.
    for (const std::size_t n : {1UL, 7UL, 37UL, 67UL}) {
      for (std::size_t first = 0; first < std::min<std::size_t>(values.size(), 400);
           first += n < 7 ? 1 : 7)
        require_converts(step, window(values, first, n));
    }
  }
  SUCCEED();
}

TEMPLATE_TEST_CASE("arithmetic of integers wraps around", "", std::int64_t, std::int32_t,
                   std::int16_t, std::int8_t, std::uint8_t) {
  constexpr DType dtype = dtype_of<TestType>;
  std::vector<TestType> a, b;
  integer_operands(a, b);
  const World world = World::self();
  Program program("wrapping", Mesh::over(world));
  const auto n = static_cast<std::int64_t>(a.size());
  const Value first = program.input("a", dtype, {static_cast<int>(n)}, replicated);
  const Value second = program.input("b", dtype, {static_cast<int>(n)}, replicated);
  std::vector<std::string> names;
  for (const IntegerOp& op : integer_ops) {
    program.output(op.name, op.make(first, second).named(op.name));
    names.emplace_back(op.name);
  }
  program.output("total", sum(first).named("total"));
  program.output("all", prod(first * 2 + 1).named("all"));
  ir::Reference reference(*ir::graph_of(program), {});
  reference.set("a", ir::RankData{ir::Data(a.begin(), a.end())});
  reference.set("b", ir::RankData{ir::Data(b.begin(), b.end())});
  reference.run({});
  Executable step = compile(program, one_kernel("ops", names), world);
  step.write("a", a);
  step.write("b", b);
  step.run();
  // The reference is in double, which holds no i64 exactly that is so large.
  constexpr bool is_exact = sizeof(TestType) < 8;
  for (const IntegerOp& op : integer_ops) {
    INFO(op.name);
    const std::vector<Wide> got = elements(step, op.name, dtype);
    for (std::size_t i = 0; i < a.size(); ++i) {
      INFO(static_cast<std::int64_t>(a[i]) << " and " << static_cast<std::int64_t>(b[i]));
      const Wide made = op.meaning != nullptr                      ? op.meaning(a[i], b[i])
                        : wrapped(Wide{a[i]} + b[i], dtype) < a[i] ? a[i]
                                                                   : b[i];
      REQUIRE(static_cast<std::int64_t>(got[i]) == static_cast<std::int64_t>(wrapped(made, dtype)));
      if (is_exact)
        REQUIRE(reference.get(op.name)[0][i] == static_cast<double>(wrapped(made, dtype)));
    }
  }
  Wide total = 0, all = 1;
  for (const TestType one : a) {
    total = wrapped(total + one, dtype);
    all = wrapped(all * wrapped(Wide{one} * 2 + 1, dtype), dtype);
  }
  CHECK(elements(step, "total", dtype) == std::vector<Wide>{total});
  CHECK(elements(step, "all", dtype) == std::vector<Wide>{all});
  if (is_exact) {
    CHECK(reference.get("total")[0] == ir::Data{static_cast<double>(total)});
    CHECK(reference.get("all")[0] == ir::Data{static_cast<double>(all)});
  }
}

TEST_CASE("whole constants of 64 bits are what they are in kernels and in JSON") {
  const World world = World::self();
  Program program("large", Mesh::over(world));
  const Value x = program.input("x", i64, {3}, replicated);
  const std::int64_t large = (std::int64_t{1} << 60) + 256;
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  program.output("up", (x + large).named("up"));
  program.output("down", (x + least).named("down"));
  CHECK(Program::parse(program.json()).json() == program.json());
  Executable step = compile(program, one_kernel("large", {"up", "down"}), world);
  step.write("x", std::vector<std::int64_t>{0, 1, 2});
  step.run();
  using Integers = std::vector<std::int64_t>;
  CHECK(elements_of<std::int64_t>(step, "up") == Integers{large, large + 1, large + 2});
  CHECK(elements_of<std::int64_t>(step, "down") == Integers{least, least + 1, least + 2});
}

TEMPLATE_TEST_CASE("integers converted to narrower ones keep their low bits", "", std::int64_t,
                   std::int32_t, std::int16_t, std::int8_t, std::uint8_t) {
  std::vector<TestType> x, unused;
  integer_operands(x, unused);
  const World world = World::self();
  const Program program = casts_of(dtype_of<TestType>);
  Executable step =
      compile(program, Schedule("none"), world, {{"n", static_cast<std::int64_t>(x.size())}});
  step.write("x", x);
  step.run();
  for (const DType to : targets()) {
    INFO(to_string(to));
    const std::vector<Wide> got = elements(step, to_name(to), to);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Wide expected = to == boolean ? Wide{x[i] != 0} : wrapped(x[i], to);
      REQUIRE(static_cast<std::int64_t>(got[i]) == static_cast<std::int64_t>(expected));
    }
  }
}
